"""The playground for browsers: from our own origin where it is installed."""

import shutil
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch

import pytest
from graphql_server import Caller, graphql_server
from missing import missing
from operators import World

from graphql_api import install_playground, playground, view
from graphql_api.auth import Authenticator
from graphql_api.playground import ASSETS, INSTALLED, ROUTE, STARTER, Playground

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
async def stranger(operated: World) -> AsyncIterator[Caller]:
    """Somebody without a key."""
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        yield server.caller(None)


class References(HTMLParser):
    """The files that a page loads, with the hashes that it expects of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str | None] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        url = given.get("src") or given.get("href")
        if tag in ("script", "link") and given.get("rel") != "icon":
            assert url is not None, "nothing runs inline"
            self.found[url] = given.get("integrity")


async def test_a_browser_gets_the_page_without_a_key(stranger: Caller) -> None:
    """The page holds no data, may load and reach only what it needs, and is not framed."""
    answer = await stranger.send("GET", headers={"Accept": BROWSER})

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("accept", ["*/*", "application/json", None])
async def test_others_get_no_page(stranger: Caller, accept: str | None) -> None:
    """What is not a browser is answered in JSON, and asked for its key."""
    answer = await stranger.send("GET", headers={"Accept": accept})

    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("application/json")


async def test_a_browser_that_sends_a_query_gets_no_page(stranger: Caller) -> None:
    """A link with a query in it is a query, which takes a key."""
    answer = await stranger.send("GET", params={"query": "{ x }"}, headers={"Accept": BROWSER})

    assert answer.status_code == 401


async def test_our_own_script_is_served(stranger: Caller) -> None:
    """It is part of Ibex, installed or not; other files of ours are not to be had."""
    origin = stranger.url.removesuffix("/graphql")
    script = await stranger.send("GET", url=f"{origin}{ROUTE}/{STARTER}")
    other = await stranger.send("GET", url=f"{origin}{ROUTE}/playground.html")
    outside = await stranger.send("GET", url=f"{origin}{ROUTE}/..%2fschema.py")

    assert script.status_code == 200
    assert script.headers["content-type"].startswith("text/javascript")
    assert (other.status_code, outside.status_code) == (404, 404)


def test_without_installed_files_the_page_says_where_they_come_from(tmp_path: Path) -> None:
    """Each outside file is bound to its hash, and a notice is shown."""
    found = Playground(tmp_path)
    loaded = References(found.html).found

    assert not found.is_local
    assert "not installed here" in found.html
    assert loaded.pop(f"{ROUTE}/{STARTER}") is None
    assert len(loaded) == len(ASSETS)
    assert all(url.startswith("https://unpkg.com/") for url in loaded)
    assert all(hash_ and hash_.startswith("sha384-") for hash_ in loaded.values())


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the playground's files, fetched by npm where they are not here yet."""
    install_playground.main()
    if not Playground().is_local:
        missing("the playground is not installed, and npm cannot fetch it")
    return Path(shutil.copytree(INSTALLED, tmp_path / "assets"))


def test_installed_files_are_the_only_ones_loaded(installed: Path) -> None:
    """The page names no other host, and no notice."""
    found = Playground(installed)

    assert found.is_local
    assert "//" not in found.html
    assert "not installed" not in found.html
    assert "https:" not in found.policy
    assert {url.removeprefix(f"{ROUTE}/") for url in References(found.html).found} == set(
        found.files
    )


def test_a_file_that_was_changed_is_not_served(installed: Path) -> None:
    """With one file damaged, the page falls back as a whole."""
    with (installed / ASSETS[0].name).open("ab") as file:
        file.write(b"\n")

    found = Playground(installed)

    assert not found.is_local
    assert set(found.files) == {STARTER}


async def test_installed_files_are_served_and_kept_by_browsers(
    installed: Path, operated: World
) -> None:
    """Each is served whole, in its type, for ever."""
    authenticator = Authenticator(operated.repository)
    with patch.object(view, "Playground", lambda: Playground(installed)):
        async with graphql_server(operated.management, authenticator) as server:
            caller = server.caller(None)
            for asset in ASSETS:
                answer = await caller.send("GET", url=f"{server.url}{ROUTE}/{asset.name}")

                assert asset.is_intact(answer.content)
                assert "immutable" in answer.headers["cache-control"]


def test_without_npm_installing_says_so_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The set-up goes on, and what it means is told."""
    with (
        patch.object(install_playground, "INSTALLED", tmp_path / "none"),
        patch.object(shutil, "which", return_value=None),
    ):
        install_playground.main()

    assert "npm is not here" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    assert playground.CDN in Playground(tmp_path / "none").html

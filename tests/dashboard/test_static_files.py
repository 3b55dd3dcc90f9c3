"""Files that browsers keep for ever."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import brotli
import httpx
import pytest
import sanic_apps
from sanic import HTTPResponse, Request
from sanic.response import text

from dashboard import static_files

NAMES = ("dashboard.css", "dashboard.js", "plotly.min.js")
DECODERS = {"br": brotli.decompress, "gzip": gzip.decompress}


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """Asks for the files alone."""
    app = sanic_apps.new_app()
    static_files.register(app)
    app.error_handler.add(Exception, _status)
    async with (
        sanic_apps.serving(app) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as client,
    ):
        yield client


def _status(_request: Request, error: Exception) -> HTTPResponse:
    return text("", status=getattr(error, "status_code", 500))


async def raw(browser: httpx.AsyncClient, url: str, encoding: str) -> tuple[httpx.Headers, bytes]:
    """Headers and bytes as they came."""
    async with browser.stream("GET", url, headers={"Accept-Encoding": encoding}) as answer:
        assert answer.status_code == httpx.codes.OK
        return answer.headers, b"".join([piece async for piece in answer.aiter_raw()])


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_is_the_same_in_every_encoding(browser: httpx.AsyncClient, name: str) -> None:
    """And compressed it is smaller."""
    url = static_files.files().url(name)
    _, bare = await raw(browser, url, "identity")

    for encoding, decode in DECODERS.items():
        headers, content = await raw(browser, url, encoding)
        assert headers["content-encoding"] == encoding
        assert int(headers["content-length"]) == len(content) < len(bare) / 2
        assert decode(content) == bare


@pytest.mark.parametrize("name", NAMES)
async def test_browsers_keep_it_for_ever(browser: httpx.AsyncClient, name: str) -> None:
    """Because another content has another address; a proxy keeps the encodings apart."""
    headers, _ = await raw(browser, static_files.files().url(name), "br")

    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert headers["vary"] == "Accept-Encoding"
    assert headers["x-content-type-options"] == "nosniff"
    kind = "text/css" if name.endswith("css") else "text/javascript"
    assert headers["content-type"] == f"{kind}; charset=utf-8"


async def test_the_address_is_that_of_the_content(tmp_path: static_files.Path) -> None:
    """It changes with it."""
    path = tmp_path / "a.css"
    path.write_text("a {}")
    before = static_files.StaticFiles({"a.css": path}).url("a.css")
    path.write_text("b {}")

    assert static_files.StaticFiles({"a.css": path}).url("a.css") != before


async def test_head_tells_of_the_file_without_it(browser: httpx.AsyncClient) -> None:
    """As GET would."""
    url = static_files.files().url("dashboard.css")
    headers, content = await raw(browser, url, "gzip")

    answer = await browser.head(url, headers={"Accept-Encoding": "gzip"})

    assert answer.status_code == httpx.codes.OK
    assert answer.content == b""
    assert answer.headers["content-length"] == str(len(content))
    assert answer.headers["content-encoding"] == headers["content-encoding"]


@pytest.mark.parametrize(
    "path", ["0123456789abcdef/dashboard.css", "{hash}/none.css", "{hash}/..%2fpages.py", "{hash}/"]
)
async def test_what_there_is_not_is_not_found(browser: httpx.AsyncClient, path: str) -> None:
    """Neither another content, nor another file."""
    digest = static_files.files().url("dashboard.css").split("/")[-2]

    answer = await browser.get(f"{static_files.ROUTE}/{path.format(hash=digest)}")

    assert answer.status_code == httpx.codes.NOT_FOUND


async def test_a_file_is_compressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask meanwhile, and also where the first of them leaves."""
    calls = []
    compress = static_files.encoded

    def counted(content: bytes, encoding: static_files.Encoding, *, quality: int) -> bytes:
        calls.append(encoding)
        return compress(content, encoding, quality=quality)

    monkeypatch.setattr(static_files, "encoded", counted)
    files = static_files.StaticFiles({"a.js": static_files.HERE / "dashboard.js"})
    digest = files.url("a.js").split("/")[-2]
    first = asyncio.create_task(files.answer(digest, "a.js", "br"))
    await asyncio.sleep(0)
    first.cancel()

    await asyncio.gather(*(files.answer(digest, "a.js", "br") for _ in range(5)))
    await files.answer(digest, "a.js", "br")

    assert calls == ["br"]

"""Every page: who is shown what, in what form, and what keeps others out."""

from itertools import pairwise

import httpx
import pytest
from html_reader import Page
from pages_server import (
    AGENT,
    AGENT_HISTORY,
    AGENT_LIMITS,
    CHANGES,
    HISTORY,
    MOVING,
    ORGANIZATION,
    ORGANIZATION_LIMITS,
    OVERVIEW,
    PAGES,
    Site,
)
from session_server import BROWSER

from db.api_keys import Role

HEADINGS = {
    OVERVIEW: "Overview",
    ORGANIZATION: "Ours",
    AGENT: "Ours's agent",
    CHANGES: "Changes of limits: Ours",
    HISTORY: "History: Ours",
    AGENT_HISTORY: "History: Ours's agent",
}
OPERATORS = {
    Role.PLATFORM: "platform operator",
    Role.ADMIN: "administrator",
    Role.READ_ONLY: "read only",
}


NO_PAGES = {
    "/dashboard/nothing": 404,
    "/dashboard/organizations": 404,
    "/dashboard/organizations/7": 404,
    "/dashboard/agents/%3Cscript%3E": 404,
    "/dashboard/agents/" + "0" * 3000: 404,
    f"{ORGANIZATION}/changes/1": 404,
    f"{ORGANIZATION}?page=0": 400,
    f"{ORGANIZATION}?page=x": 400,
    f"{ORGANIZATION}?page={'9' * 400}": 400,
    f"{CHANGES}?after=x": 400,
    f"{HISTORY}?by=week": 400,
    f"{AGENT_HISTORY}/1": 404,
}


@pytest.mark.parametrize("role", OPERATORS)
async def test_operators_are_shown_what_is_theirs(served: Site, role: Role) -> None:
    """Each page to each role, with who it is for and the way out."""
    for pattern in PAGES if role is Role.PLATFORM else PAGES[1:]:
        page = Page(await served.shown(pattern, role))

        assert page.heading == HEADINGS[pattern]
        assert page.one("span", "role").text == OPERATORS[role]
        assert page.all("form", action="/dashboard/sign-out")


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READ_ONLY])
async def test_operators_of_an_organization_begin_with_it(served: Site, role: Role) -> None:
    """The overview leads them there."""
    answer = await served.get(OVERVIEW, role)

    assert answer.status_code == httpx.codes.SEE_OTHER
    assert answer.headers["location"] == served.path(ORGANIZATION)


async def test_every_page_is_sound(served: Site) -> None:
    """Headings in order, ids once, labels on inputs, no inline style or script."""
    for pattern in PAGES:
        is_sound(Page(await served.shown(pattern, Role.PLATFORM)))


def is_sound(page: Page) -> None:
    levels = [int(each.tag[1]) for each in page.elements if each.tag in {"h1", "h2", "h3"}]
    ids = [each.attributes["id"] for each in page.elements if "id" in each.attributes]
    shown_inputs = [each for each in page.all("input") if each.attributes.get("type") != "hidden"]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(ids) == len(set(ids))
    assert {each.attributes["id"] for each in shown_inputs} <= {
        each.attributes.get("for") for each in page.all("label")
    }
    assert not [each for each in page.elements if "style" in each.attributes]
    assert all("src" in each.attributes or each.attributes["type"] == "application/json"
               for each in page.all("script"))  # fmt: skip
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("a", "skip").attributes["href"] == "#content"


async def test_every_page_has_its_headers(served: Site) -> None:
    """It is not to be kept, nor to be shown or fed by other sites, and is found in the log."""
    for pattern in PAGES:
        answer = await served.get(pattern, Role.PLATFORM)

        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"].startswith("req_")
        assert "default-src 'self'" in answer.headers["content-security-policy"]


async def test_who_has_not_signed_in_is_led_to_the_door(served: Site) -> None:
    """And back to the page that was asked for."""
    for pattern in PAGES:
        answer = await served.get(pattern, None)

        assert answer.status_code == httpx.codes.SEE_OTHER
        path = served.path(pattern)
        expected = "/dashboard/sign-in" + (f"?next={path}" if path != OVERVIEW else "")
        assert answer.headers["location"] == expected


async def test_a_query_is_kept_over_the_sign_in(served: Site) -> None:
    """As part of the page's address, not of the door's."""
    answer = await served.get(f"{ORGANIZATION}?page=2&x=1", None)

    target = served.path(ORGANIZATION) + "%3Fpage%3D2%26x%3D1"
    assert answer.headers["location"] == f"/dashboard/sign-in?next={target}"


async def test_a_script_is_told_to_sign_in(served: Site) -> None:
    """In JSON: a redirect would lead it to a page that it cannot read."""
    for pattern in MOVING:
        answer = await served.get(f"{pattern}/live", None)

        assert answer.status_code == httpx.codes.UNAUTHORIZED
        assert answer.json() == {"error": "sign in first"}


@pytest.mark.parametrize("pattern", [ORGANIZATION_LIMITS, AGENT_LIMITS])
async def test_a_form_of_nobody_changes_nothing(served: Site, pattern: str) -> None:
    """It leads to the door, and from there to the first page."""
    fields = {"version": "1", "requests_per_minute": "1", "tokens_per_month": "1"}

    answer = await served.send(pattern, fields, None)

    assert answer.status_code == httpx.codes.SEE_OTHER
    assert answer.headers["location"] == "/dashboard/sign-in"
    assert served.world.channel.published == []


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READ_ONLY])
async def test_the_overview_stays_the_platforms(served: Site, role: Role) -> None:
    """Its numbers too."""
    answer = await served.get(f"{OVERVIEW}/live", role)

    assert answer.status_code == httpx.codes.FORBIDDEN
    assert "platform" in answer.json()["error"]


async def test_an_address_that_is_none_is_a_page(served: Site) -> None:
    """Never a failure, nor what was asked for as markup."""
    for path, status in NO_PAGES.items():
        answer = await served.get(path)

        assert answer.status_code == status, path
        assert Page(answer.text).heading in {"Not found", "This cannot be used"}, path
        assert "script>" not in answer.text, path


async def test_a_slash_too_many_leads_to_the_page(served: Site) -> None:
    """Where there is one; and never to another host."""
    for path in ("/dashboard/", "/dashboard//", f"{ORGANIZATION}/", "/dashboard/nothing/"):
        answer = await served.get(path)

        assert answer.status_code == httpx.codes.PERMANENT_REDIRECT
        assert answer.headers["location"] == served.path(path).rstrip("/")


async def test_pages_are_only_read(served: Site) -> None:
    """Anything else is refused, as a page."""
    browser = await served.browser()
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for pattern in PAGES:
            answer = await browser.request(method, served.path(pattern), headers=BROWSER)

            assert answer.status_code == httpx.codes.METHOD_NOT_ALLOWED
            assert Page(answer.text).heading == "Not offered"


async def test_head_tells_of_a_page_without_it(served: Site) -> None:
    """With the type and status of GET."""
    for pattern in PAGES[1:]:
        answer = await (await served.browser()).head(served.path(pattern))

        assert answer.status_code == httpx.codes.OK
        assert answer.content == b""
        assert int(answer.headers["content-length"]) > 0


async def test_pages_are_compressed_as_browsers_take_it(served: Site) -> None:
    """And tell caches that they are."""
    for encoding in ("br", "gzip", "identity"):
        answer = await served.get(ORGANIZATION, headers={"Accept-Encoding": encoding})

        assert answer.headers.get("content-encoding", "identity") == encoding
        assert answer.headers["vary"] == "Accept-Encoding"
        assert Page(answer.text).heading == "Ours"


async def test_a_body_where_none_belongs_is_left_aside(served: Site) -> None:
    """However long it is."""
    browser = await served.browser()

    answer = await browser.request("GET", served.path(ORGANIZATION), content=b"x" * 200_000)

    assert answer.status_code == httpx.codes.OK

"""The form for a key: what it takes, what it says, and where it leads."""

import html
from collections.abc import Iterable

import httpx
import pytest
import structlog
from session_server import BROWSER, FORM, NOBODY, SIGN_IN, SIGN_OUT, WHO, Door

from dashboard.form_body import LONGEST_BYTES, MOST_FIELDS
from dashboard.sign_in import page_within
from db.api_keys import Role, generate

NOT_VALID = "This key is not valid: it is mistyped, unknown or revoked"
ORGANIZATION = "/dashboard/organizations/0b5d0c4e-3c1b-4b53-9d0e-0f4f4f3f5a11"


def told(answer: httpx.Response) -> str:
    """What the page says, as people read it."""
    return " ".join(html.unescape(answer.text).split())


async def test_the_form_is_there_for_everybody(entrance: Door) -> None:
    """By GET and HEAD; where nobody has signed in."""
    answer = await entrance.client.get(SIGN_IN)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<form class="sign-in" method="post" action="/dashboard/sign-in">' in answer.text
    assert "plain http" not in answer.text
    head = await entrance.client.head(SIGN_IN)
    assert (head.status_code, head.content) == (200, b"")


async def test_keys_that_are_not_valid_are_refused_alike(entrance: Door) -> None:
    """Never issued, revoked, mistyped: the same page for each, without the key."""
    ours = entrance.world.ours
    await entrance.world.management.revoke_key(ours.admin, ours.read_only.key_id)
    revoked = entrance.key(Role.READ_ONLY)
    pages = set()
    for key in (generate(Role.ADMIN), revoked, entrance.key()[:-1], "x", "\x00", "é" * 500, "<b>"):
        answer = await entrance.sign_in(key)
        assert (answer.status_code, "set-cookie" in answer.headers) == (422, False)
        assert NOT_VALID in told(answer)
        pages.add(answer.text)

    assert len(pages) == 1
    assert await entrance.who() == NOBODY


async def test_an_agents_key_is_told_what_it_is(entrance: Door) -> None:
    """It sends traffic, and opens nothing here."""
    answer = await entrance.sign_in(entrance.key(Role.AGENT))

    assert answer.status_code == 422
    assert "This is an agent's key, which sends traffic" in told(answer)
    assert entrance.key(Role.AGENT) not in answer.text
    assert await entrance.who() == NOBODY


async def test_no_key_is_no_attempt(entrance: Door) -> None:
    """It is said what to paste; nothing is counted."""
    for body in ({}, {"key": ""}, {"key": " \t\n"}, {"next": "/dashboard"}):
        answer = await entrance.post(SIGN_IN, body)

        assert answer.status_code == 422
        assert "Paste the key" in told(answer)
    assert not entrance.pace._own


async def test_space_around_a_key_does_no_harm(entrance: Door) -> None:
    """It comes with copying."""
    assert (await entrance.sign_in(f" \n{entrance.key()}\r\n ")).status_code == 303


async def test_signing_in_leads_to_the_page_that_was_asked_for(entrance: Door) -> None:
    """By way of the form; at once, where one has signed in."""
    for path in (
        "/dashboard",
        ORGANIZATION,
        f"{ORGANIZATION}?page=2",
        f"{ORGANIZATION}/changes?after=120&x=%C3%A9",
    ):
        form = await entrance.client.get(SIGN_IN, params={"next": path})
        assert f'name="next" value="{html.escape(path)}"' in form.text

        answer = await entrance.sign_in(next=path)
        assert (answer.status_code, answer.headers["location"]) == (303, path)

        again = await entrance.client.get(SIGN_IN, params={"next": path})
        assert (again.status_code, again.headers["location"]) == (303, path)
        entrance.client.cookies.clear()


ELSEWHERE = [
    "",
    "/",
    "/graphql",
    "//evil.test",
    "///evil.test",
    "/\\evil.test",
    "\\\\evil.test",
    "https://evil.test/dashboard",
    "https:/dashboard",
    "https:evil.test",
    "javascript:alert(1)",
    "dashboard",
    " /dashboard/x",
    "/dashboard.evil.test",
    "/dashboard@evil.test",
    "/dashboardx",
    "/dashboard//evil.test",
    "/dashboard/../graphql",
    "/dashboard/..",
    "/dashboard/%2e%2e/graphql",
    "/dashboard/x/..%2f..%2fgraphql",
    "/dashboard/\\..\\..\\evil",
    "/dashboard/x#@evil.test",
    "/dashboard/x\r\nX-Injected: 1",
    "/dashboard/x\x00",
    "/dashboard/é",
    "/dashboard/sign-in",
    "/dashboard/sign-out",
    "/dashboard/live",
    f"{ORGANIZATION}/live",
    "/dashboard/static/0123/dashboard.css",
    "/dashboard/x?next=//evil.test",
]


@pytest.mark.parametrize("path", ELSEWHERE)
def test_signing_in_leads_nowhere_else(path: str) -> None:
    """Not to another host or part of this one, and not to what is no page."""
    assert page_within(path) == "/dashboard"


async def test_who_was_lured_to_the_form_stays_here(entrance: Door) -> None:
    """The address that came with the link is in neither the form nor the answer."""
    form = await entrance.client.get(SIGN_IN, params={"next": "//evil.test"})
    answer = await entrance.sign_in(next="//evil.test")

    assert "evil.test" not in form.text
    assert answer.headers["location"] == "/dashboard"


async def test_a_key_in_an_address_is_not_looked_at(entrance: Door) -> None:
    """Addresses end up in logs and histories; so none is ever made with a key."""
    answer = await entrance.client.get(SIGN_IN, params={"key": entrance.key()})

    assert entrance.key() not in answer.text
    assert await entrance.who() == NOBODY


def forms(key: str) -> Iterable[tuple[bytes, dict[str, str], int]]:
    """What is sent, how, and how it is refused."""
    good = f"key={key}".encode()
    yield good, {"Content-Type": "text/plain"}, 400
    yield good, {"Content-Type": ""}, 400
    yield b"{}", {"Content-Type": "application/json"}, 400
    yield good, {"Content-Type": "multipart/form-data; boundary=x"}, 400
    yield good + b"&key=x", {}, 400
    yield good + b"&next=/dashboard&next=//evil.test", {}, 400
    yield b"key=%ff%fe", {}, 400
    yield b"key=\xff\xfe", {}, 400
    yield good + b"&x=1" * MOST_FIELDS, {}, 400
    yield b"key=" + b"x" * LONGEST_BYTES, {}, 413
    yield b"x" * 10_000_000, {}, 413


async def test_a_form_that_cannot_be_read_signs_nobody_in(entrance: Door) -> None:
    """Nor does it fail: it is said what would be taken."""
    for body, headers, status in forms(entrance.key()):
        answer = await entrance.post(SIGN_IN, body, {**BROWSER, **headers})
        assert (answer.status_code, "set-cookie" in answer.headers) == (status, False), body[:99]
        assert answer.headers["content-type"].startswith("text/html")
        assert entrance.key() not in answer.text

    assert await entrance.who() == NOBODY


async def test_fields_that_nobody_asked_for_are_left_aside(entrance: Door) -> None:
    """Extensions of browsers add some."""
    body = f"remember=1&key={entrance.key()}&&x".encode()

    answer = await entrance.post(
        SIGN_IN, body, {**BROWSER, "Content-Type": f"{FORM};charset=utf-8"}
    )

    assert answer.status_code == 303


async def test_only_forms_are_taken(entrance: Door) -> None:
    """Other methods are not offered."""
    for method in ("PUT", "PATCH", "DELETE"):
        answer = await entrance.client.request(method, SIGN_IN, headers=BROWSER)

        assert answer.status_code == 405
        assert answer.headers["content-type"].startswith("text/html")


async def test_no_log_holds_a_key_or_a_session(entrance: Door) -> None:
    """It says who was refused, and which key has signed in, by its id."""
    with structlog.testing.capture_logs() as logs:
        await entrance.sign_in(generate(Role.ADMIN))
        await entrance.sign_in()
        await entrance.client.get(WHO)
        token = str(entrance.token)
        await entrance.post(SIGN_OUT)

    assert [line["event"] for line in logs] == ["sign-in refused", "operator signed in"]
    assert logs[0]["client"] == "127.0.0.1"
    assert entrance.world.ours.admin.key_id in str(logs)
    assert entrance.key() not in str(logs)
    assert token not in str(logs)

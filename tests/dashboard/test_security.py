"""Other sites can neither send forms in an operator's name nor frame, read or extend a page."""

import asyncio

import httpx
from raw_client import exchange, request
from session_server import FORM, NOBODY, SIGN_IN, SIGN_OUT, WHO, Door

HOST = "ibex.test:8443"
OWN = f"https://{HOST}"
FROM_OUTSIDE: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "same-origin, cross-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": OWN},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "https://evil.test"},
    {"Origin": "https://ibex.test"},
    {"Origin": "https://ibex.test:8444"},
    {"Origin": f"http://{HOST}"},
    {"Origin": f"https://x.{HOST}"},
    {"Origin": f"{OWN}.evil.test"},
    {"Origin": "https://ibex.test:8443@evil.test"},
    {"Origin": "https://evil.test#ibex.test:8443"},
    {"Origin": "https://[ibex.test:8443"},
    {"Origin": "https://ibex.test:99999999"},
    {"Origin": f"ftp://{HOST}"},
    {"Origin": HOST},
]
FROM_INSIDE = [
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "Same-Origin"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": OWN},
    {"Origin": "https://IBEX.test:8443"},
]


def headers(said: dict[str, str], **more: str) -> dict[str, str]:
    return {"Host": HOST, "X-Forwarded-Proto": "https", "Content-Type": FORM, **said, **more}


async def test_forms_from_outside_are_refused(entrance: Door) -> None:
    """Another site, a part of another site, no browser: none signs in or out, and each is told."""
    await entrance.sign_in()
    token = str(entrance.token)
    entrance.client.cookies.clear()
    secure = f"__Host-ibex_session={token}"
    for said in FROM_OUTSIDE:
        answer = await entrance.post(SIGN_IN, {"key": entrance.key()}, headers(said))
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), said
        assert "Not sent from this site" in answer.text
        answer = await entrance.post(SIGN_OUT, {}, headers(said, Cookie=secure))
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), said

    assert await entrance.who(token) != NOBODY


async def test_two_opinions_on_where_a_form_comes_from_are_one_too_many(entrance: Door) -> None:
    """A header that is there twice is believed only where both say the same."""
    for name, good, bad in (
        ("Sec-Fetch-Site", "same-origin", "cross-site"),
        ("Origin", OWN, "https://evil.test"),
    ):
        for values in ([good, bad], [bad, good]):
            sent = [*headers({}).items(), *((name, value) for value in values)]
            answer = await entrance.client.post(SIGN_OUT, headers=sent)
            assert answer.status_code == 403


async def test_a_host_that_is_there_twice_is_nobodys_origin(entrance: Door) -> None:
    """A proxy in front may have looked at the other one."""
    for hosts in (("ibex.test", "evil.test"), ("evil.test", "ibex.test")):
        sent = [("Origin", "http://ibex.test"), *(("Host", host) for host in hosts)]
        data = request("POST", SIGN_OUT, sent, b"")

        answer = await asyncio.to_thread(exchange, httpx.URL(entrance.url).port or 0, data)

        assert answer.status in (400, 403)


async def test_forms_of_our_own_pages_are_taken(entrance: Door) -> None:
    """Told by Fetch Metadata, or by the Origin where a browser sends no such."""
    for said in FROM_INSIDE:
        answer = await entrance.post(SIGN_IN, {"key": entrance.key()}, headers(said))
        assert answer.status_code == 303, said


async def test_plain_http_on_this_machine_is_told_by_the_origin(entrance: Door) -> None:
    """Host and port are compared, however they are spelled."""
    for origin, host, status in (
        ("http://127.0.0.1:8000", "127.0.0.1:8000", 303),
        ("http://localhost:80", "localhost", 303),
        ("http://[::1]:8000", "[::1]:8000", 303),
        ("http://localhost:8000", "127.0.0.1:8000", 403),
        ("http://localhost:8001", "localhost:8000", 403),
        ("ftp://localhost:8000", "localhost:8000", 403),
        ("http://", "", 403),
    ):
        sent = {"Origin": origin, "Host": host, "Content-Type": FORM}
        answer = await entrance.post(SIGN_IN, {"key": entrance.key()}, sent)
        assert answer.status_code == status, origin


async def test_a_link_on_another_site_may_lead_here(entrance: Door) -> None:
    """Reading changes nothing."""
    answer = await entrance.client.get(SIGN_IN, headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 200


async def test_a_session_is_not_enough_to_send_a_form(entrance: Door) -> None:
    """A route that only exists for this test is guarded as every other."""
    await entrance.sign_in()

    refused = await entrance.post(WHO, {}, {"Sec-Fetch-Site": "cross-site"})
    taken = await entrance.post(WHO, {})

    assert (refused.status_code, taken.text) == (403, entrance.world.ours.admin.key_id)


async def test_every_answer_says_what_browsers_may_do(entrance: Door) -> None:
    """The form, a refusal, a redirection and a failure: all have the same headers."""
    answers = [
        await entrance.client.get(SIGN_IN),
        await entrance.sign_in("x"),
        await entrance.sign_in(),
        await entrance.client.get("/dashboard/nothing"),
        await entrance.post(SIGN_OUT, {}, {}),
    ]

    assert [answer.status_code for answer in answers] == [200, 422, 303, 404, 403]
    for answer in answers:
        policy = dict(
            part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; ")
        )
        assert policy["default-src"] == policy["script-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in str(policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"].startswith("req_")
        assert "strict-transport-security" not in answer.headers


async def test_https_is_kept_once_it_was_used(entrance: Door) -> None:
    """For a year; said over https only, as browsers want it."""
    answer = await entrance.client.get(SIGN_IN, headers={"X-Forwarded-Proto": "https"})

    assert answer.headers["strict-transport-security"] == "max-age=31536000"

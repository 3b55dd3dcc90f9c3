"""The cookie as browsers see it, over https and in the clear."""

import httpx
from session_server import BROWSER, NOBODY, SIGN_IN, SIGN_OUT, WHO, Door

HTTPS = {**BROWSER, "X-Forwarded-Proto": "https", "Host": "ibex.test"}
CLEAR = {**BROWSER, "Host": "ibex.test"}
SECURE_NAME = "__Host-ibex_session"


def cookie(answer: httpx.Response) -> tuple[str, str, set[str]]:
    """Name, value and attributes of the one cookie that is set."""
    (header,) = answer.headers.get_list("set-cookie")
    pair, *attributes = header.split("; ")
    name, _, value = pair.partition("=")
    return name, value, set(attributes)


async def test_on_this_machine_it_needs_no_https(entrance: Door) -> None:
    """A plain name, which a browser keeps; out of scripts' reach, and not for other sites."""
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:1"):
        headers = {**BROWSER, "Host": host}
        answer = await entrance.post(SIGN_IN, {"key": entrance.key()}, headers)

        name, value, attributes = cookie(answer)
        assert (name, attributes) == ("ibex_session", {"Path=/", "HttpOnly", "SameSite=Lax"})
        entrance.client.cookies.clear()
        sent = {"Host": host, "Cookie": f"a=b; ibex_session={value}; c"}
        assert (await entrance.client.get(WHO, headers=sent)).text != NOBODY


async def test_over_https_no_other_host_can_set_it(entrance: Door) -> None:
    """The prefix, Secure, and the whole path; so it ends too."""
    for proxied, host in (("https", "ibex.test"), ("HTTPS", "localhost"), ("https, http", "[::1]")):
        headers = {**HTTPS, "X-Forwarded-Proto": proxied, "Host": host}
        answer = await entrance.post(SIGN_IN, {"key": entrance.key()}, headers)

        name, value, attributes = cookie(answer)
        assert (name, attributes) == (SECURE_NAME, {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"})
        sent = {**headers, "Cookie": f"{SECURE_NAME}={value}"}
        assert (await entrance.client.get(WHO, headers=sent)).text != NOBODY
        ended = cookie(await entrance.post(SIGN_OUT, headers=sent))
        assert ended == (SECURE_NAME, "", {*attributes, "Max-Age=0"})
        assert (await entrance.client.get(WHO, headers=sent)).text == NOBODY


async def test_over_https_the_name_of_the_other_mode_is_nothing(entrance: Door) -> None:
    """A cookie without the prefix may have been set by anybody."""
    await entrance.sign_in()
    sent = {**HTTPS, "Cookie": f"ibex_session={entrance.token}"}

    assert (await entrance.client.get(WHO, headers=sent)).text == NOBODY


async def test_in_the_clear_nobody_signs_in_from_elsewhere(entrance: Door) -> None:
    """The page says so before a key is sent, and again if it was; no session is begun."""
    form = await entrance.client.get(SIGN_IN, headers={"Host": "ibex.test"})
    answer = await entrance.post(SIGN_IN, {"key": entrance.key()}, CLEAR)

    assert "came over plain http from another" in form.text
    assert (answer.status_code, "set-cookie" in answer.headers) == (422, False)
    assert "your browser would not keep a session" in answer.text


async def test_a_browsers_origin_tells_https_where_no_proxy_does(entrance: Door) -> None:
    """A proxy that ends TLS and says nothing."""
    headers = {**CLEAR, "Origin": "https://ibex.test"}

    answer = await entrance.post(SIGN_IN, {"key": entrance.key()}, headers)

    name, value, attributes = cookie(answer)
    assert (answer.status_code, name, "Secure" in attributes) == (303, SECURE_NAME, True)
    sent = {"Host": "ibex.test", "Cookie": f"{SECURE_NAME}={value}"}
    assert (await entrance.client.get(WHO, headers=sent)).text != NOBODY

"""Targets: forwarded byte for byte, or refused; never mended, and never to another host."""

import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import call, chat, provision
from raw_client import exchange, request
from raw_upstream import RawUpstream

FORWARDED = [
    "/",
    "/v1/models",
    "/v1/models/",
    "/v1/models?",
    "/v1/messages?beta=true&x=a%20b&x=c&=&y",
    "/v1/a%2Fb%2fc",
    "/v1/a%20b+c",
    "/v1//doubled///x",
    "/v1/~user/%7Euser",
    "/v1/%E4%BD%A0/%ff",
    "/v1/files/{id}:cancel;v=1,2'()!*$&@=",
    "/v1/...",
    "/v1/..x/x..",
    "/v1/x?next=/../y&q=a\\b%5c",
    "/v1/%00/%0d%0aX-Injected:%201",
    "//evil.test/x",
    "/http://evil.test/x",
    "/@evil.test/x",
    "/:80/x",
    "/v1/" + "long/" * 1500,
]

REFUSED = [
    "/raw/../admin",
    "/raw/v1/../../admin",
    "/raw/v1/..",
    "/raw/v1/.",
    "/raw/v1/./x",
    "/raw/v1/%2e%2e/x",
    "/raw/v1/.%2E/x",
    "/raw/v1/..%2fx",
    "/raw/v1%2f..%2fx",
    "/raw/v1/..;/x",
    "/raw/v1/\\evil.test",
    "/raw/v1/..\\x",
    "/raw/v1/..%5Cx",
    "/raw/v1/x#fragment",
]

NOWHERE = [
    "/",
    "/raw",
    "/raw?x=1",
    "/RAW/v1/models",
    "/Raw/v1/models",
    "/%72aw/v1/models",
    "//raw/v1/models",
    "/raw%2fv1/models",
    "/v1/models",
    "/nothing/v1/models",
    "/raw@evil.test/x",
    "http://evil.test/raw/v1/models",
    "*",
    "@evil.test/raw/v1/models",
    "raw/v1/models",
]


@pytest.mark.parametrize("target", FORWARDED)
def test_a_target_reaches_the_upstream_byte_for_byte(
    stack: Stack, raw: RawUpstream, target: str
) -> None:
    """What the client spelled is appended to the configured base, whatever a library would mend."""
    tenant = provision(stack)
    answer = call(stack, tenant.agent, f"/raw{target}")
    assert answer.status == 200
    assert [received.target.decode() for received in raw.requests] == [f"/base{target}"]
    assert raw.requests[0].values(b"host") == [raw.url.removeprefix("http://").encode()]
    assert b"x-injected" not in raw.requests[0].head.lower().split(b"\r\n", 1)[1]


@pytest.mark.parametrize("target", REFUSED)
def test_a_target_that_may_leave_the_base_is_refused(
    stack: Stack, raw: RawUpstream, target: str
) -> None:
    """Dot segments in any escape, backslashes and fragments: 400, nothing forwarded or counted."""
    tenant = provision(stack)
    answer = call(stack, tenant.agent, target)
    assert answer.status == 400
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


@pytest.mark.parametrize("target", NOWHERE)
def test_a_target_that_names_no_upstream_is_not_found(
    stack: Stack, raw: RawUpstream, target: str
) -> None:
    """The host is never taken from the client, and each upstream has one spelling."""
    tenant = provision(stack)
    answer = call(stack, tenant.agent, target)
    assert answer.status in (400, 404)
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


@pytest.mark.parametrize(
    "target", [b"/raw/v1/\xc3\xa9", b"/raw/v1/\xff", b"/\xff/x", b"/raw/a\x00b"]
)
def test_a_target_that_is_no_uri_is_refused(stack: Stack, raw: RawUpstream, target: bytes) -> None:
    """Bytes that no URI has are a client's error, not ours."""
    tenant = provision(stack)
    data = request("GET", "/TARGET", list(tenant.agent.bearer.items()))
    answer = exchange(stack.gateway.port, data.replace(b"/TARGET", target))
    assert answer.status in (400, 404)
    assert raw.requests == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/raw/v1/x", "/raw/v1/x/", "/raw/V1/X"])
def test_every_method_and_spelling_is_admitted_and_counted(
    stack: Stack, raw: RawUpstream, method: str, path: str
) -> None:
    """No alias, trailing slash, case or method is a way around the limits."""
    tenant = provision(stack, agent_rpm=1)
    body = b"{}" if method in ("POST", "PUT", "PATCH") else None
    assert call(stack, tenant.agent, path, body, method=method).status == 200
    assert raw.requests[0].head.startswith(f"{method} /base{path[4:]} ".encode())
    assert Counters(stack, tenant).requests(tenant.agent) == 1
    assert call(stack, tenant.agent, path, body, method=method).status == 429
    assert len(raw.requests) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/raw/v1/chat/completions/",
        "/raw/v1//chat//completions",
        "/raw/V1/Chat/Completions",
        "/raw/v1/chat/completion%73",
        "/raw/v1/chat%2Fcompletions",
        "/raw/v1/chat/completions?api-version=1",
        "/raw/v1/chat/completions?",
        "/raw/v1/chat/completions;v=1",
        "/raw/v1/chat/completions%00",
    ],
)
def test_every_spelling_of_a_metered_route_is_metered(
    stack: Stack, raw: RawUpstream, path: str
) -> None:
    """An upstream that takes the spelling for the route spends tokens: the ceiling holds, what it
    may come to is reserved, and a stream is asked for its usage.
    """
    tenant = provision(stack, tokens=50)
    assert call(stack, tenant.agent, path, chat(max_tokens=60)).status == 429
    assert raw.requests == []
    assert call(stack, tenant.agent, path, chat(stream=True, max_tokens=9)).status == 200
    assert b'"include_usage":true' in raw.requests[0].body
    assert raw.requests[0].target.decode() == f"/base{path.removeprefix('/raw')}"

"""Answers of our own other than denials: the dialect's shape, an id, and no secret in any."""

import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import CHAT, call, chat, fields, provision
from raw_client import Answer, exchange, request
from raw_upstream import Peer, RawUpstream
from servers import eventually

from gateway import responses
from gateway.responses import Kind, Refusal, refused

SECRETS = ("sk-upstream-secret", "Traceback", "site-packages", 'File \\"')


def of_openai(answer: Answer) -> tuple[str, str]:
    """Type and code, after a look at the whole answer."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (answer.get("x-request-id") or "").startswith("req_")
    assert answer.get("content-type") == "application/json"
    return error["type"], error["code"]


def of_anthropic(answer: Answer) -> str:
    """Type, after a look at the whole answer."""
    body = answer.json()
    assert (body["type"], set(body["error"])) == ("error", {"type", "message"})
    assert body["request_id"] == answer.get("request-id")
    assert body["request_id"].startswith("req_")
    assert answer.get("content-type") == "application/json"
    return str(body["error"]["type"])


def test_an_unknown_upstream_is_not_found(stack: Stack, raw: RawUpstream) -> None:
    """404 names the upstreams that there are, with a key or without one, and counts nothing."""
    tenant = provision(stack)
    for headers in (fields(tenant.agent), []):
        for path in ("/nothing/v1/x", "/v2/chat/completions", "/graphiql/x"):
            answer = exchange(stack.gateway.port, request("POST", path, headers, b"{}"))
            assert answer.status == 404
            assert of_openai(answer) == ("invalid_request_error", "unknown_upstream")
            assert "anthropic, claude" in answer.json()["error"]["message"]
    assert Counters(stack, tenant).everything() == {}
    assert raw.requests == []


def test_an_upstream_without_a_key_is_not_asked(stack: Stack, raw: RawUpstream) -> None:
    """503 says which variable is missing; nothing is forwarded, nothing counted."""
    tenant = provision(stack)
    answer = call(stack, tenant.agent, "/unkeyed/v1/chat/completions", chat())
    assert answer.status == 503
    assert of_openai(answer) == ("server_error", "upstream_not_configured")
    assert "UPSTREAM_UNKEYED_KEY" in answer.json()["error"]["message"]
    assert Counters(stack, tenant).everything() == {}
    assert raw.requests == []


def test_an_upstream_that_needs_no_key_gets_none(stack: Stack, raw: RawUpstream) -> None:
    """An empty key is a statement: forwarded without any credential."""
    agent = provision(stack).agent
    assert call(stack, agent, "/free/v1/chat/completions", chat()).status == 200
    names = {name for name, _ in raw.requests[0].headers}
    assert not names & {b"authorization", b"x-api-key", b"api-key"}


def test_an_unreachable_upstream_charges_nothing(stack: Stack) -> None:
    """502 after an admission: one request is counted, no token."""
    tenant = provision(stack)
    answer = call(stack, tenant.agent, "/dead/v1/chat/completions", chat(max_tokens=50))
    assert answer.status == 502
    assert of_openai(answer) == ("server_error", "upstream_unreachable")
    counters = Counters(stack, tenant)
    assert counters.settled(0)
    assert counters.requests(tenant.agent) == 1


@pytest.mark.parametrize("path", [CHAT, "/claude/v1/messages", "/raw/v1/models"])
@pytest.mark.parametrize(
    "garbage",
    [b"", b"HTTP/1.1 2", b"GARBAGE\r\n\r\n", b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n", b"\x00" * 100],
)
def test_an_upstream_that_speaks_no_http_is_a_bad_gateway(
    stack: Stack, raw: RawUpstream, garbage: bytes, path: str
) -> None:
    """A connection that ends or breaks before a whole head: 502 in the dialect, no charge."""
    tenant = provision(stack)

    def script(peer: Peer) -> None:
        peer.send(garbage)
        peer.close()

    raw.script = script
    answer = call(stack, tenant.agent, path, chat())
    assert answer.status == 502
    if path.startswith("/claude"):
        assert of_anthropic(answer) == "api_error"
    else:
        assert of_openai(answer) == ("server_error", "upstream_unreachable")
    assert Counters(stack, tenant).settled(0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_silent_upstream_times_out(stack: Stack, raw: RawUpstream, stream: bool) -> None:
    """504 when nothing came for the longest silence, the connection is let go, no charge."""
    tenant = provision(stack)
    left = []
    raw.script = lambda peer: left.append(peer.wait_until_left(5))
    answer = call(stack, tenant.agent, "/claude/v1/messages", chat(stream=stream))
    assert answer.status == 504
    assert of_anthropic(answer) == "timeout_error"
    assert Counters(stack, tenant).settled(0)
    assert left == [True]


def test_a_connection_that_the_upstream_closed_meanwhile_is_not_used(
    stack: Stack, raw: RawUpstream
) -> None:
    """An idle connection that ends on the other side is replaced, not answered with 502."""
    tenant = provision(stack)

    def script(peer: Peer) -> None:
        peer.json()
        peer.close()

    raw.script = script
    before = raw.open_connections
    for _ in range(5):
        assert call(stack, tenant.agent, CHAT, chat()).status == 200
        assert eventually(lambda: raw.open_connections <= before)
    assert Counters(stack, tenant).settled(5 * 7)


def test_methods_that_are_not_offered_are_refused(stack: Stack, raw: RawUpstream) -> None:
    """A method that we do not forward, or that a route of ours does not have, is an error."""
    agent = provision(stack).agent
    for method, path in (("TRACE", CHAT), ("CONNECT", CHAT), ("FOO", CHAT), ("POST", "/limits")):
        answer = exchange(stack.gateway.port, request(method, path, fields(agent)))
        assert answer.status in (400, 405)
        of_openai(answer)
    assert raw.requests == []


def test_no_answer_and_no_log_line_has_a_secret(stack: Stack, raw: RawUpstream) -> None:
    """Whatever goes wrong: no key of anybody, no stack trace."""
    agent = provision(stack, agent_rpm=4).agent
    raw.script = Peer.close
    answers = [
        call(stack, agent, path, body)
        for path, body in (
            (CHAT, b"{"),
            (CHAT, chat()),
            ("/dead/v1/x", None),
            ("/claude/v1/messages", chat()),
            ("/unkeyed/v1/x", None),
            ("/nothing/x", None),
            (f"/raw/v1/x?key={agent.key}", None),
            ("/raw/v1/../x", None),
            ("/raw/v1/x", None),
            (CHAT, chat()),
        )
    ]
    assert [answer.status for answer in answers] == [
        400, 502, 502, 502, 503, 404, 400, 400, 502, 429,
    ]  # fmt: skip
    told = "".join(repr(answer.headers) + answer.body.decode() for answer in answers)
    for secret in (*SECRETS, agent.key):
        assert secret not in told
    for secret in ("sk-upstream-secret", agent.key, stack.database_url):
        assert secret not in stack.gateway.log


KINDS = [value for value in vars(responses).values() if isinstance(value, Kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.status} {kind.openai_code}")
def test_every_kind_has_a_status_and_types_that_fit_it(kind: Kind) -> None:
    """A client's error is told from a server's in both families, as their SDKs read them."""
    assert 400 <= kind.status < 600
    if kind.status >= 500:
        assert kind.openai_type == "server_error"
        assert kind.anthropic_type in ("api_error", "timeout_error", "overloaded_error")
    else:
        assert kind.openai_type in ("invalid_request_error", "requests", "insufficient_quota")
    answer = refused(Refusal(kind, "Why.", ("X-More", "1")), "anthropic")
    assert (answer.status, dict(answer.fields)["X-More"]) == (kind.status, "1")
    assert b'"message":"Why."' in (answer.body or b"")


def test_request_ids_are_never_the_same() -> None:
    """Each answer can be named."""
    assert len({responses.new_request_id() for _ in range(1000)}) == 1000

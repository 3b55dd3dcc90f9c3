"""What an intermediary has to get right beyond the plain case; another reader of HTTP judges."""

import threading
from collections.abc import Callable

import pytest
from counters import Counters
from gateway_stack import Agent, Stack
from http_judge import one_answer, one_request
from raw_calls import CHAT, FILES, MESSAGES, PROMPT_TOKENS, call, chat, fields, provision, start
from raw_client import RawClient, request
from raw_upstream import JSON_ANSWER, Peer, RawUpstream, Script, answering

CLOSING = ("Connection", "close")


def chunked(peer: Peer) -> None:
    peer.start_stream()
    if not peer.received.head.startswith(b"HEAD "):
        peer.chunk(b"data: {}\n\n", b"data: [DONE]\n\n")
        peer.end_stream()


def until_its_end(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nsome text")
    peer.close()


def bare(status: bytes) -> Script:
    return lambda peer: peer.send(b"HTTP/1.1 " + status + b"\r\n\r\n")


SCRIPTS: dict[str, tuple[Script, bytes]] = {
    "json": (Peer.json, JSON_ANSWER),
    "empty": (answering(b""), b""),
    "stream": (chunked, b"data: {}\n\ndata: [DONE]\n\n"),
    "until its end": (until_its_end, b"some text"),
    "no content": (bare(b"204 No Content"), b""),
    "not modified": (bare(b"304 Not Modified"), b""),
    "an error": (answering(b"<p>", status=b"500 Oops"), b"<p>"),
    "no reason": (answering(b"x", status=b"200 "), b"x"),
}


def sent_for(agent: Agent, method: str, target: str) -> bytes:
    body = chat() if method == "POST" else None
    return request(method, target, [*fields(agent), CLOSING], body)


@pytest.mark.parametrize("case", SCRIPTS)
@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", FILES), ("HEAD", FILES), ("POST", FILES), ("POST", CHAT), ("POST", MESSAGES)],
)
def test_another_reader_finds_one_message_each_way(
    stack: Stack, raw: RawUpstream, case: str, method: str, target: str
) -> None:
    """One request with its body arrives, one answer with its body comes back, nothing else."""
    agent = provision(stack).agent
    raw.script, body = SCRIPTS[case]
    with RawClient(stack.gateway.port) as client:
        client.send(sent_for(agent, method, target))
        answer = one_answer(client.read_to_the_end(), method, ended=True)
    (received,) = raw.requests
    asked = one_request(received.raw)
    assert asked.body == (chat() if method == "POST" else b"")
    assert asked.start.method == method.encode()
    assert answer.body == (b"" if method == "HEAD" else body)
    framing = answer.values(b"content-length") + answer.values(b"transfer-encoding")
    assert len(framing) == (0 if case in ("no content", "not modified") else 1)


@pytest.mark.parametrize(
    ("target", "head", "status"),
    [
        (FILES, [], 401),
        ("/nothing/x", [], 404),
        ("/dead/v1/x", None, 502),
        ("/raw/v1/../x", None, 400),
        ("/unkeyed/v1/x", None, 503),
    ],
)
def test_another_reader_finds_one_answer_of_ours(
    stack: Stack, target: str, head: list[tuple[str, str]] | None, status: int
) -> None:
    """Refusals are whole messages too, to GET and without a body to HEAD."""
    agent = provision(stack).agent
    for method in ("GET", "HEAD"):
        with RawClient(stack.gateway.port) as client:
            own = fields(agent) if head is None else head
            client.send(request(method, target, [*own, CLOSING]))
            answer = one_answer(client.read_to_the_end(), method, ended=True)
        assert answer.start.status_code == status
        assert bool(answer.body) is (method == "GET")


def test_a_head_request_may_be_answered_without_a_length(stack: Stack, raw: RawUpstream) -> None:
    """The answer to GET would be a stream: HEAD has its head alone, and the connection goes on."""
    agent = provision(stack).agent
    raw.script = chunked
    with RawClient(stack.gateway.port) as client:
        for method in ("HEAD", "HEAD", "GET"):
            client.send(request(method, FILES, fields(agent)))
            answer = client.answer(method)
            assert (answer.status, answer.get("content-length")) == (200, None)
            assert bool(answer.body) is (method == "GET")


def test_streams_are_not_to_be_held_back_by_others(stack: Stack, raw: RawUpstream) -> None:
    """A stream of events tells a proxy in front so; the upstream's word and other bodies stand."""
    agent = provision(stack).agent
    raw.script = chunked
    assert call(stack, agent, CHAT, chat(stream=True)).get("x-accel-buffering") == "no"
    raw.script = answering(
        b"data: {}\n\n", b"Content-Type: text/event-stream", b"X-Accel-Buffering: yes"
    )
    assert call(stack, agent, CHAT, chat(stream=True)).get("x-accel-buffering") == "yes"
    raw.script = Peer.json
    assert call(stack, agent, CHAT, chat()).get("x-accel-buffering") is None


def test_an_upstream_may_answer_before_it_was_told_all(stack: Stack, raw: RawUpstream) -> None:
    """A 413 in the middle of an upload reaches the client, and the upload goes nowhere."""
    tenant = provision(stack)
    connections = raw.open_connections

    def early(peer: Peer) -> None:
        peer.answer(b"too much", b"Connection: close", status=b"413 Content Too Large")
        peer.close()

    raw.early = early
    with RawClient(stack.gateway.port) as client:
        head = request("POST", FILES, [*fields(tenant.agent), ("Content-Length", "15000000")])
        client.send(head + b"x" * 100_000)
        assert client.head().status == 413
    assert Counters(stack, tenant).settled(0)
    assert raw.open_connections <= connections


def test_a_connection_that_was_closed_silently_is_not_used(stack: Stack, raw: RawUpstream) -> None:
    """A kept connection that the upstream has closed costs no request: each arrives once."""
    agent = provision(stack).agent
    closed = threading.Event()

    def script(peer: Peer) -> None:
        peer.json()
        peer.close()
        closed.set()

    for _ in range(20):
        closed.clear()
        raw.script = script
        assert call(stack, agent, CHAT, chat()).status == 200
        assert closed.wait(5)
    assert len(raw.requests) == 20


@pytest.mark.parametrize("status", [b"101 Switching Protocols", b"1000 Odd", b"abc Odd"])
def test_an_answer_that_nobody_can_pass_on_is_ours(
    stack: Stack, raw: RawUpstream, status: bytes
) -> None:
    """502 for a status that is none, or switches to what was not asked for."""
    tenant = provision(stack)
    raw.script = lambda peer: peer.answer(b"{}", status=status)
    assert call(stack, tenant.agent, CHAT, chat()).status == 502
    assert Counters(stack, tenant).settled(0)


@pytest.mark.parametrize("leave", [RawClient.half_close, RawClient.reset, RawClient.close])
def test_every_way_to_leave_is_leaving(
    stack: Stack, raw: RawUpstream, leave: Callable[[RawClient], None]
) -> None:
    """A connection that is closed on the client's side, in half or wholly, takes no answer."""
    tenant = provision(stack)
    left = threading.Event()

    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        if peer.wait_until_left():
            left.set()
        peer.close()

    raw.script = script
    with start(stack, tenant.agent) as client:
        client.head()
        assert client.chunk()
        leave(client)
        assert left.wait(5)
    assert Counters(stack, tenant).settled(PROMPT_TOKENS + 1)

"""A client that leaves early: its upstream is let go at once, and what was used is settled once."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from counters import Counters
from gateway_stack import Stack, Tenant
from raw_calls import CHAT, MESSAGES, PROMPT_TOKENS, call, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import Peer, RawUpstream
from servers import eventually

from gateway.metering.tokens import text_tokens

PROMPTLY_S = 5.0


def event(data: object, name: str = "") -> bytes:
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps(data)}\n\n".encode()


DELTA = event({"choices": [{"delta": {"content": "a"}}]})
USAGE = event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
DONE = b"data: [DONE]\n\n"
STARTED = event(
    {"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1}}},
    "message_start",
)
TEXT = event({"type": "content_block_delta", "delta": {"text": "a"}}, "content_block_delta")
TOTALS = event({"type": "message_delta", "usage": {"output_tokens": 15}}, "message_delta")


class Watched:
    """Scripts an upstream that sends some events, then waits to be left.

    They go in one write: who has seen the first of them knows that the gateway has read them all.
    """

    def __init__(self, *events: bytes, head: bool = True) -> None:
        self._events = events
        self._head = head
        self.asked = threading.Event()
        self.left = threading.Event()

    def __call__(self, peer: Peer) -> None:
        self.asked.set()
        if self._head:
            peer.start_stream()
            peer.chunk(b"".join(self._events))
        if peer.wait_until_left(5):
            self.left.set()
        peer.close()


@contextmanager
def streaming(stack: Stack, tenant: Tenant, target: str = CHAT) -> Iterator[RawClient]:
    """A client that has asked for a stream, and leaves at the end of the block."""
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", target, fields(tenant.agent), chat(stream=True)))
        yield client


def settled(stack: Stack, tenant: Tenant, tokens: int) -> bool:
    """Whether just these tokens are counted, for one request, and nothing stays open."""
    counters = Counters(stack, tenant)
    assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 0)
    assert counters.settled(tokens)
    return counters.requests(tenant.agent) == 1


@pytest.mark.parametrize(
    ("target", "events", "tokens"),
    [
        pytest.param(CHAT, (DELTA,), PROMPT_TOKENS + 1, id="one delta, nothing reported"),
        pytest.param(CHAT, (DELTA,) * 3, PROMPT_TOKENS + 3, id="three deltas"),
        pytest.param(CHAT, (DELTA, USAGE), 15, id="usage was seen"),
        pytest.param(CHAT, (DELTA, USAGE, DONE), 15, id="right after [DONE]"),
        pytest.param(MESSAGES, (STARTED,), 26, id="anthropic has told the input"),
        pytest.param(MESSAGES, (STARTED, TEXT, TEXT), 27, id="and two deltas followed"),
        pytest.param(MESSAGES, (STARTED, TEXT, TOTALS), 40, id="and the output total"),
    ],
)
def test_what_was_seen_is_settled(
    stack: Stack, raw: RawUpstream, target: str, events: tuple[bytes, ...], tokens: int
) -> None:
    """Reported figures as reported, an estimate for the rest; the upstream is closed promptly."""
    tenant = provision(stack)
    raw.script = upstream = Watched(*events)
    visible = b"".join(event for event in events if event != USAGE)
    with streaming(stack, tenant, target) as client:
        client.head()
        seen = b""
        while seen != visible:
            piece = client.chunk()
            assert piece
            seen += piece
    assert upstream.left.wait(PROMPTLY_S)
    assert settled(stack, tenant, tokens)


def test_leaving_before_the_answer_charges_the_prompt(stack: Stack, raw: RawUpstream) -> None:
    """The provider has the prompt already: it is charged as estimated, and its answer dropped."""
    tenant = provision(stack)
    raw.script = upstream = Watched(head=False)
    with streaming(stack, tenant):
        assert upstream.asked.wait(5)
    assert upstream.left.wait(PROMPTLY_S)
    assert settled(stack, tenant, PROMPT_TOKENS)


def test_leaving_before_the_answer_to_an_upload_is_free(stack: Stack, raw: RawUpstream) -> None:
    """What was not metered has no estimate: one request, no tokens."""
    tenant = provision(stack)
    raw.script = upstream = Watched(head=False)
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", "/raw/v1/files", fields(tenant.agent), b"x" * 1000))
        assert upstream.asked.wait(5)
    assert upstream.left.wait(PROMPTLY_S)
    assert settled(stack, tenant, 0)


def test_leaving_an_upload_that_nobody_takes_is_noticed(stack: Stack, raw: RawUpstream) -> None:
    """Nothing is read of such a client: the upstream's silence ends it, and nothing is charged."""
    tenant = provision(stack)
    over = threading.Event()

    def take_nothing(_peer: Peer) -> None:
        over.wait(15)

    raw.early = take_nothing
    data = request("POST", "/raw/v1/files", fields(tenant.agent), b"x" * 19_000_000)
    with RawClient(stack.gateway.port, timeout_s=1) as client, pytest.raises(TimeoutError):
        client.send(data)
    try:
        assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 0, 12)
    finally:
        over.set()
    assert Counters(stack, tenant).settled(0)


def test_leaving_within_a_document_charges_an_estimate(stack: Stack, raw: RawUpstream) -> None:
    """Half a JSON answer reports nothing: the prompt, and the text that was seen, are estimated."""
    tenant = provision(stack)
    left = threading.Event()
    seen = b'{"choices":"' + b"to be or not to be " * 20

    def script(peer: Peer) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
        peer.send(head + seen)
        if peer.wait_until_left(5):
            left.set()
        peer.close()

    raw.script = script
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", CHAT, fields(tenant.agent), chat()))
        assert client.head().status == 200
    assert left.wait(PROMPTLY_S)
    assert settled(stack, tenant, PROMPT_TOKENS + text_tokens(seen))


def test_a_client_that_stops_reading_and_leaves_is_noticed(stack: Stack, raw: RawUpstream) -> None:
    """Also while the gateway waits for it to read on."""
    tenant = provision(stack)
    broken = threading.Event()

    def script(peer: Peer) -> None:
        peer.start_stream()
        try:
            for _ in range(1000):
                peer.chunk(DELTA * 1000)
        except OSError:
            broken.set()
            raise

    raw.script = script
    with RawClient(stack.gateway.port, receive_buffer=65_536) as client:
        client.send(request("POST", CHAT, fields(tenant.agent), chat(stream=True)))
        client.head()
        assert client.chunk()
    assert broken.wait(PROMPTLY_S)
    counters = Counters(stack, tenant)
    assert eventually(lambda: counters.tokens() > PROMPT_TOKENS)
    assert (counters.held(), counters.open()) == (0, 0)


def test_a_hundred_leaving_clients_leak_nothing(stack: Stack, raw: RawUpstream) -> None:
    """No upstream connection, reservation or request stays open, and each is counted once."""
    tenant = provision(stack)
    call(stack, tenant.agent, CHAT, chat())
    idle = raw.open_connections
    for number in range(100):
        raw.script = upstream = Watched(DELTA) if number % 2 else Watched(head=False)
        with streaming(stack, tenant) as client:
            assert upstream.asked.wait(5)
            if number % 2:
                client.head()
                assert client.chunk() == DELTA
    assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 0)
    assert eventually(lambda: raw.open_connections <= idle)
    counters = Counters(stack, tenant)
    assert counters.settled(7 + 100 * PROMPT_TOKENS + 50)
    assert counters.requests(tenant.agent) == 101


def test_leaving_after_the_end_is_no_leaving(stack: Stack, raw: RawUpstream) -> None:
    """A connection closed after a whole answer changes nothing, and the upstream's stays open."""
    tenant = provision(stack)
    call(stack, tenant.agent, CHAT, chat())
    before = raw.connections
    for _ in range(3):
        call(stack, tenant.agent, CHAT, chat())
    assert raw.connections == before
    assert Counters(stack, tenant).settled(4 * 7)

"""Answer bodies as they come: at once, byte for byte, no faster than they are read."""

import threading
import time

import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import CHAT, MESSAGES, call, chat, fields, provision, start
from raw_client import RawClient, request
from raw_upstream import JSON_ANSWER, Peer, RawUpstream, Script
from servers import eventually

DOWNLOAD = "/raw/v1/files/1/content"
BINARY = bytes(range(256)) * 81_920  # 20 MB
EVENTS = [b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % number for number in range(5)]
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
DONE = b"data: [DONE]\n\n"


def streaming(*pieces: bytes, every_s: float = 0) -> Script:
    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(*pieces, every_s=every_s)
        peer.end_stream()

    return script


@pytest.mark.parametrize("chunked", [False, True])
def test_a_download_arrives_byte_for_byte(stack: Stack, raw: RawUpstream, chunked: bool) -> None:
    """Twenty megabytes, with the upstream's length, or without one where it states none."""
    agent = provision(stack).agent

    def script(peer: Peer) -> None:
        if not chunked:
            peer.answer(BINARY, b"Content-Type: application/octet-stream")
            return
        peer.start_stream(b"application/octet-stream")
        peer.chunk(*(BINARY[at : at + 99_999] for at in range(0, len(BINARY), 99_999)))
        peer.end_stream()

    raw.script = script
    answer = call(stack, agent, DOWNLOAD)
    assert answer.ended
    assert answer.body == BINARY
    assert answer.get("content-length") == (None if chunked else str(len(BINARY)))
    assert answer.get("transfer-encoding") == ("chunked" if chunked else None)


def test_a_body_that_ends_with_the_connection_arrives(stack: Stack, raw: RawUpstream) -> None:
    """An upstream of HTTP/1.0 manners, without length and chunks, is relayed whole and counted."""
    tenant = provision(stack)

    def script(peer: Peer) -> None:
        peer.send(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + JSON_ANSWER)
        peer.close()

    raw.script = script
    answer = call(stack, tenant.agent, CHAT, chat())
    assert (answer.body, answer.ended) == (JSON_ANSWER, True)
    assert Counters(stack, tenant).settled(7)


@pytest.mark.parametrize("target", [CHAT, "/plain/v1/chat/completions", MESSAGES, "/raw/v1/x"])
def test_each_event_leaves_at_once(stack: Stack, raw: RawUpstream, target: str) -> None:
    """The upstream sends an event when the client has seen the one before; also edited streams."""
    agent = provision(stack).agent
    seen = threading.Semaphore(0)

    def script(peer: Peer) -> None:
        peer.start_stream()
        for event in EVENTS:
            peer.chunk(event)
            assert seen.acquire(timeout=10)
        peer.end_stream()

    raw.script = script
    with start(stack, agent, target) as client:
        head = client.head()
        for event in EVENTS:
            assert client.chunk() == event
            seen.release()
    assert head.get("content-type") == "text/event-stream"
    assert head.get("content-encoding") is None


def test_the_head_of_a_stream_does_not_wait_for_its_first_event(
    stack: Stack, raw: RawUpstream
) -> None:
    """A provider that thinks for a while has answered all the same."""
    agent = provision(stack).agent
    think = threading.Event()

    def script(peer: Peer) -> None:
        peer.start_stream()
        think.wait(10)
        peer.chunk(*EVENTS)
        peer.end_stream()

    raw.script = script
    with start(stack, agent) as client:
        assert client.head().status == 200
        think.set()
        assert client.chunk()


@pytest.mark.parametrize("target", [CHAT, "/plain/v1/chat/completions", MESSAGES])
def test_a_stream_cut_anywhere_arrives_byte_for_byte(
    stack: Stack, raw: RawUpstream, target: str
) -> None:
    """Multi-byte characters, comments, pings, odd events and CRLF, one byte in each write."""
    agent = provision(stack).agent
    stream = (
        ": comment\n\n:\n\ndata:\n\ndata: null\n\nevent: ping\ndata: {}\n\n"
        'data: {"delta":{"text":"好🙂"}}\r\n\r\ndata: not json\n\nid: 1\nretry: 5\n\n'
        "data: [DONE]\n\ndata: [DONE]\n\n"
    ).encode()
    raw.script = streaming(*(bytes([byte]) for byte in stream))
    with start(stack, agent, target) as client:
        answer = client.answer()
    assert answer.ended
    assert answer.body == stream


def test_a_slow_reader_holds_back_the_upstream(stack: Stack, raw: RawUpstream) -> None:
    """What the client does not read stays with the upstream, not in the gateway's memory."""
    agent = provision(stack).agent
    piece, pieces = b"x" * 65_536, 1600  # 100 MB
    sent = 0

    def script(peer: Peer) -> None:
        nonlocal sent
        peer.start_stream(b"application/octet-stream")
        for _ in range(pieces):
            peer.chunk(piece)
            sent += 1
        peer.end_stream()

    raw.script = script
    with RawClient(stack.gateway.port, receive_buffer=65_536) as client:
        client.send(request("GET", DOWNLOAD, fields(agent)))
        client.head()
        assert eventually(lambda: sent > 0)
        time.sleep(3.5)  # longer than the longest silence that an upstream is granted
        held_back = sent
        assert held_back * len(piece) < 20_000_000
        total = 0
        while received := client.chunk():
            total += len(received)
    assert total == pieces * len(piece)
    assert sent == pieces > held_back


def test_slow_streams_do_not_hold_up_others(stack: Stack, raw: RawUpstream) -> None:
    """While ten streams wait for their upstreams, an eleventh request is answered at once."""
    tenant = provision(stack)
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        if b"slow" not in peer.received.body:
            peer.json()
            return
        peer.start_stream()
        peer.chunk(EVENTS[0])
        go_on.wait(10)
        peer.chunk(USAGE, DONE)
        peer.end_stream()

    raw.script = script
    clients = [start(stack, tenant.agent, model="slow") for _ in range(10)]
    try:
        assert [client.head().status for client in clients] == [200] * 10
        before = time.monotonic()
        assert call(stack, tenant.agent, CHAT, chat()).status == 200
        assert time.monotonic() - before < 1
        assert eventually(lambda: Counters(stack, tenant).open() == 10)
        go_on.set()
        assert all(client.answer_body().endswith(DONE) for client in clients)
    finally:
        go_on.set()
        for client in clients:
            client.close()
    assert Counters(stack, tenant).settled(11 * 7)


def test_a_connection_serves_many_requests(stack: Stack, raw: RawUpstream) -> None:
    """Streams, errors, denials and plain answers follow each other on one connection."""
    tenant = provision(stack, agent_rpm=3)
    raw.script = streaming(*EVENTS, USAGE, DONE)
    statuses = []
    with RawClient(stack.gateway.port) as client:
        for target in (CHAT, "/nothing/x", "/raw/v1/../x", MESSAGES, CHAT, CHAT):
            client.send(request("POST", target, fields(tenant.agent), chat(stream=True)))
            answer = client.answer()
            statuses.append(answer.status)
            assert answer.ended
    assert statuses == [200, 404, 400, 200, 200, 429]

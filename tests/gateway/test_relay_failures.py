"""Answers that break off: never a clean end for the client, never a token unsettled."""

import json
import time
from collections.abc import Callable

import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import CHAT, MESSAGES, call, chat, provision, start
from raw_upstream import Peer, RawUpstream, Script
from servers import eventually

EVENTS = [b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % number for number in range(2)]
FAILURES: dict[str, Script] = {}


def failing(script: Script) -> Script:
    FAILURES[script.__name__] = script
    return script


@failing
def chunks_without_an_end(peer: Peer) -> None:
    peer.start_stream()
    peer.chunk(EVENTS[0], EVENTS[1])
    peer.close()


@failing
def a_chunk_cut_short(peer: Peer) -> None:
    peer.start_stream()
    peer.send(b"%x\r\n" % (len(EVENTS[0]) * 2) + EVENTS[0])
    peer.close()


@failing
def chunks_that_are_none(peer: Peer) -> None:
    peer.start_stream()
    peer.chunk(EVENTS[0])
    time.sleep(0.05)
    peer.send(b"not a chunk\r\n")


@failing
def fewer_bytes_than_promised(peer: Peer) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\n"
    peer.send(head + EVENTS[0])
    peer.close()


@failing
def silence(peer: Peer) -> None:
    peer.start_stream()
    peer.chunk(EVENTS[0])
    peer.wait_until_left()


@pytest.mark.parametrize(
    ("failure", "target"),
    [
        *((failure, CHAT) for failure in FAILURES),
        ("chunks_without_an_end", MESSAGES),
        ("fewer_bytes_than_promised", MESSAGES),
    ],
)
def test_an_answer_that_breaks_off_is_seen_to_break_off(
    stack: Stack, raw: RawUpstream, failure: str, target: str
) -> None:
    """No clean end is made up: the client sees a broken transfer, and what was seen is settled. The
    log has one warning, and no error: it was none of ours.
    """
    tenant = provision(stack)
    logged = len(stack.gateway.log)
    raw.script = FAILURES[failure]
    with start(stack, tenant.agent, target) as client:
        answer = client.answer()
        assert answer.status == 200
        assert EVENTS[0] in answer.body or failure == "a_chunk_cut_short"
        assert not answer.ended
        assert client.is_closed()
    counters = Counters(stack, tenant)
    assert eventually(lambda: counters.open() == 0)
    assert counters.held() == 0
    assert 6 < counters.tokens() < 20
    assert len(raw.requests) == 1
    lines = [json.loads(line) for line in stack.gateway.log[logged:].splitlines()]
    assert [line["level"] for line in lines if line["event"] != "request"] == ["warning"]


@pytest.mark.parametrize(
    ("target", "ends", "status"),
    [
        (CHAT, Peer.close, 502),
        ("/raw/v1/x", Peer.close, 502),
        (MESSAGES, Peer.wait_until_left, 504),
    ],
)
def test_an_answer_that_breaks_off_before_its_first_byte_is_ours(
    stack: Stack, raw: RawUpstream, target: str, ends: Callable[[Peer], object], status: int
) -> None:
    """A head with a length and nothing behind it: 502, or 504 where the upstream keeps silent."""
    tenant = provision(stack)

    def script(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        ends(peer)

    raw.script = script
    assert call(stack, tenant.agent, target, chat()).status == status
    assert Counters(stack, tenant).settled(0)

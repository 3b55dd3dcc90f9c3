"""An upstream that sends back the key it was sent: the caller never sees it."""

import gzip
import zlib
from collections.abc import Callable
from itertools import pairwise

import brotli
import pytest
import zstandard
from gateway_stack import Stack
from hypothesis import example, given
from hypothesis import strategies as st
from raw_calls import CHAT, FILES, MESSAGES, call, chat, provision, start
from raw_upstream import Peer, RawUpstream, answering

from gateway.redact import LARGEST_ERROR, SHORTEST_SECRET, Redactor

KEY = "sk-upstream-secret"
MASK = b"*" * len(KEY)
ECHO = b'{"error":{"message":"Incorrect API key provided: ' + KEY.encode() + b'"}}'

COVERED = ECHO.replace(KEY.encode(), MASK)


@given(st.lists(st.sampled_from([KEY.encode(), b"sk-", b"s", b"data: \n\n", b"-secret", b""])),
       st.lists(st.integers(0, 200)))  # fmt: skip
@example([b"sk-", b"sk-", KEY.encode(), b"s"], [1, 2, 3, 4, 5, 6])
def test_the_key_is_covered_wherever_it_is_cut(words: list[bytes], cuts: list[int]) -> None:
    """The same bytes but for the key, in any pieces; nothing is held back at the end."""
    body = b"".join(words)
    redactor = Redactor(KEY)
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[begin:end] for begin, end in pairwise(edges)]
    passed = b"".join(map(redactor.feed, pieces)) + redactor.finish()
    assert passed == body.replace(KEY.encode(), MASK)


def test_what_cannot_be_a_key_is_not_held_back() -> None:
    """An event leaves at once, whatever it says; only the beginning of the key waits."""
    redactor = Redactor(KEY)
    for event in (b"data: secrets\n\n", b"data: sk-upstream\n\n", b"s?", b"sk-x"):
        assert redactor.feed(event) == event
    assert redactor.feed(b"data: sk-up") == b"data: "
    assert redactor.feed(b"date\n\n") == b"sk-update\n\n"


@pytest.mark.parametrize("key", [None, "", "EMPTY", "x" * (SHORTEST_SECRET - 1)])
def test_a_placeholder_is_no_key(key: str | None) -> None:
    """Upstreams that need no key are given words, which may stand in any answer."""
    body = b"none EMPTY xxxxxxx"
    redactor = Redactor(key)
    assert redactor.feed(body) == body
    assert redactor.headers([(b"x", body)]) == [(b"x", body)]


@pytest.mark.parametrize("target", [CHAT, FILES, MESSAGES])
@pytest.mark.parametrize("status", [b"200 OK", b"401 Unauthorized", b"500 Oops"])
def test_an_echoed_key_is_covered(
    stack: Stack, raw: RawUpstream, target: str, status: bytes
) -> None:
    """In names and values of fields and in bodies of any status; lengths and all else stand."""
    agent = provision(stack).agent

    def echo(peer: Peer) -> None:
        head = b"X-Echo: " + peer.received.head.replace(b"\r\n", b"|")
        name = f"X-{KEY}: 1".encode()
        peer.answer(ECHO, head, name, b"Content-Type: application/json", status=status)

    raw.script = echo
    answer = call(stack, agent, target, chat())
    assert answer.status == int(status[:3])
    assert answer.body == ECHO.replace(KEY.encode(), MASK)
    assert answer.get("content-length") == str(len(ECHO))
    echoed = answer.get("x-echo")
    assert echoed is not None
    assert MASK.decode() in echoed
    assert answer.get(f"X-{MASK.decode()}") == "1"
    assert KEY not in repr(answer) + stack.gateway.log
    assert agent.key not in repr(answer) + stack.gateway.log


PACKED: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstandard.compress,
    b"GZIP, br": lambda body: brotli.compress(gzip.compress(body)),
}


@pytest.mark.parametrize("coding", PACKED)
@pytest.mark.parametrize("target", [CHAT, FILES])
def test_a_packed_error_is_looked_into(
    stack: Stack, raw: RawUpstream, coding: bytes, target: str
) -> None:
    """With the key in it, it is sent unpacked and covered; without, and a success, as it came."""
    tenant = provision(stack)
    for body, status in ((ECHO, b"401 No"), (b"{}" * 99, b"401 No"), (b"{}" * 99, b"200 OK")):
        packed = PACKED[coding](body)
        raw.script = answering(packed, b"Content-Encoding: " + coding, status=status)
        answer = call(stack, tenant.agent, target, chat())
        assert answer.ended
        assert answer.get("content-length") == str(len(answer.body))
        if body == ECHO:
            assert (answer.body, answer.get("content-encoding")) == (COVERED, None)
        else:
            assert (answer.body, answer.get("content-encoding")) == (packed, coding.decode())


def test_a_packed_error_that_cannot_be_read_is_passed_on(stack: Stack, raw: RawUpstream) -> None:
    """Unknown codings, broken bodies and answers to HEAD are as they came; a vast error is ours."""
    tenant = provision(stack)
    for coding, body in ((b"gzip", b"no gzip"), (b"compress", b"\x1f\x9d"), (b"gzip", b"")):
        raw.script = answering(body, b"Content-Encoding: " + coding, status=b"500 Oops")
        for target in (FILES, CHAT, MESSAGES):
            answer = call(stack, tenant.agent, target, chat())
            assert (answer.status, answer.body) == (500, body)
            assert answer.get("content-encoding") == coding.decode()
    raw.script = answering(gzip.compress(ECHO), b"Content-Encoding: gzip", status=b"500 Oops")
    head = call(stack, tenant.agent, FILES, method="HEAD")
    assert head.get("content-length") == str(len(gzip.compress(ECHO)))
    vast = b"x" * (LARGEST_ERROR + 1)
    raw.script = answering(vast, b"Content-Encoding: gzip", status=b"500 Oops")
    assert call(stack, tenant.agent, FILES).status == 502


@pytest.mark.parametrize("target", [CHAT, "/plain/v1/chat/completions", MESSAGES])
def test_a_key_echoed_in_a_stream_is_covered(stack: Stack, raw: RawUpstream, target: str) -> None:
    """Whole or cut into chunks of one byte, and where the stream breaks off within it."""
    agent = provision(stack).agent
    event = b"data: " + ECHO + b"\n\n"

    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(event, *(bytes([byte]) for byte in event), event[:-30])
        peer.close()

    raw.script = script
    with start(stack, agent, target) as client:
        body = client.answer().body
    assert KEY.encode() not in body
    assert body.startswith(event.replace(KEY.encode(), MASK) * 2)

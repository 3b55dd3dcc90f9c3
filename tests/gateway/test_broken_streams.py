"""Streams that fail in the middle say so as their provider would, and never end as if whole."""

from collections.abc import Callable
from typing import Any

import anthropic
import msgspec
import openai
import pytest
from counters import Counters
from gateway_stack import Stack
from http_judge import h11, one_answer
from raw_calls import CHAT, MESSAGES, call, chat, provision, start
from raw_upstream import Peer, RawUpstream, Script
from sdks import CLAUDE, MODEL, openai_at
from sdks import MESSAGES as QUESTION
from servers import eventually

DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
STARTED = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
    b'"role":"assistant","model":"c","content":[],"stop_reason":null,"stop_sequence":null,'
    b'"usage":{"input_tokens":25,"output_tokens":1}}}\n\n'
)
PLAIN = "/plain/v1/chat/completions"
"""An upstream whose streams are not edited: what comes is passed on, whole events or not."""


def broken(*pieces: bytes, end: Callable[[Peer], object] = Peer.close) -> Script:
    """A stream of these pieces, each a chunk of its own, then no end."""

    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(*pieces, every_s=0.02)
        end(peer)

    return script


def seen(stack: Stack, target: str) -> bytes:
    """The body that a client sees before its connection ends without the answer's end."""
    tenant = provision(stack)
    with start(stack, tenant.agent, target) as client:
        answer = client.answer()
        assert (answer.status, answer.ended) == (200, False)
        assert client.is_closed()
    assert eventually(lambda: Counters(stack, tenant).open() == 0)
    assert Counters(stack, tenant).held() == 0
    return answer.body


def told(event: bytes) -> dict[str, Any]:
    """The error in the last event of a stream."""
    name, _, data = event.removesuffix(b"\n\n").rpartition(b"data: ")
    error: dict[str, Any] = msgspec.json.decode(data)
    assert name == (b"event: error\n" if "type" in error else b"")
    return error


@pytest.mark.parametrize("target", [CHAT, PLAIN, MESSAGES, "/raw/v1/messages"])
@pytest.mark.parametrize(
    ("end", "pieces"),
    [
        (Peer.close, ()),
        (Peer.reset, ()),
        (Peer.close, (DELTA,)),
        (Peer.reset, (DELTA, DELTA)),
        (Peer.wait_until_left, (DELTA,)),
    ],
)
def test_a_failure_between_events_is_an_event(
    stack: Stack, raw: RawUpstream, target: str, end: Callable[[Peer], object],
    pieces: tuple[bytes, ...],
) -> None:  # fmt: skip
    """After the head alone, or after events, by an end, a reset or silence: one event tells it."""
    raw.script = broken(*pieces, end=end)
    body = seen(stack, target)
    before = b"".join(pieces)
    assert body.startswith(before)
    error = told(body[len(before) :])
    silent = end is Peer.wait_until_left
    if target.endswith("/messages"):  # of an upstream that has both families' paths as well
        assert error["type"] == "error"
        assert error["error"]["type"] == ("timeout_error" if silent else "api_error")
        assert error["request_id"].startswith("req_")
    else:
        assert error["error"]["code"] == ("upstream_timeout" if silent else "upstream_unreachable")


@pytest.mark.parametrize("ends", [b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\n\n"])
def test_an_event_ends_as_the_standard_says(stack: Stack, raw: RawUpstream, ends: bytes) -> None:
    """A blank line, whatever its line ends, and also where it was cut in two."""
    event = b"data: {}" + ends
    for pieces in ((event,), (event[:-1], event[-1:])):
        raw.script = broken(*pieces)
        assert told(seen(stack, PLAIN)[len(event) :])


@pytest.mark.parametrize("cut", [1, 10, len(DELTA) - 1])
def test_within_an_event_nothing_is_added(stack: Stack, raw: RawUpstream, cut: int) -> None:
    """More bytes would become part of the provider's event: the connection just ends."""
    raw.script = broken(DELTA, DELTA[:cut])
    assert seen(stack, PLAIN) == DELTA + DELTA[:cut]


def test_an_event_held_back_is_not_shown_half(stack: Stack, raw: RawUpstream) -> None:
    """Where events are looked at before they are passed on, the client is always between two."""
    raw.script = broken(DELTA, DELTA[:10])
    body = seen(stack, CHAT)
    assert body.startswith(DELTA)
    assert told(body[len(DELTA) :])


def test_other_bodies_get_no_event(stack: Stack, raw: RawUpstream) -> None:
    """Encoded streams, streams with a length, and what is no stream of events just end."""
    tenant = provision(stack)
    for fields_ in (
        b"Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked",
        b"Content-Type: text/event-stream\r\nContent-Length: 5000",
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked",
    ):
        body = b"2\r\n\n\n\r\n" if b"chunked" in fields_ else b"\n\n"

        def script(peer: Peer, head: bytes = fields_, body: bytes = body) -> None:
            peer.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body)
            peer.close()

        raw.script = script
        answer = call(stack, tenant.agent, PLAIN, chat())
        assert (answer.body, answer.ended) == (b"\n\n", False)


def test_another_reader_finds_no_end_either(stack: Stack, raw: RawUpstream) -> None:
    """h11 reads the error event and then refuses the answer as incomplete."""
    raw.script = broken(DELTA)
    with (
        start(stack, provision(stack).agent) as client,
        pytest.raises(h11.RemoteProtocolError, match="incomplete"),
    ):
        one_answer(client.read_to_the_end(), "POST", ended=True)


OPENAI_STREAMS: list[Callable[[openai.OpenAI], Any]] = [
    lambda client: client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True),
    lambda client: client.completions.create(model=MODEL, prompt="hi", stream=True),
    lambda client: client.responses.create(model=MODEL, input="hi", stream=True),
]


@pytest.mark.parametrize("ask", OPENAI_STREAMS)
def test_openais_sdk_raises_its_own_error(
    stack: Stack, raw: RawUpstream, ask: Callable[[openai.OpenAI], Any]
) -> None:
    """The loop over a stream gets the delta, then an APIError with what happened."""
    raw.script = broken(DELTA)
    with openai_at(stack, provision(stack).agent, "raw", max_retries=0) as client:
        stream = ask(client)
        assert next(stream).choices[0]
        with pytest.raises(openai.APIError, match="upstream 'raw'") as caught:
            next(stream)
    assert caught.value.code == "upstream_unreachable"


def test_openais_sdk_raises_an_error_within_an_event(stack: Stack, raw: RawUpstream) -> None:
    """No event can tell it there: the SDK sees that the connection broke."""
    raw.script = broken(DELTA, DELTA[:10])
    with openai_at(stack, provision(stack).agent, "plain", max_retries=0) as client:
        stream = client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
        assert next(stream).choices[0]
        with pytest.raises(openai.APIConnectionError):
            next(stream)


def test_anthropics_sdk_raises_its_own_error(stack: Stack, raw: RawUpstream) -> None:
    """The same of the other family."""
    raw.script = broken(STARTED)
    agent = provision(stack).agent
    with anthropic.Anthropic(
        base_url=f"{stack.url}/claude", api_key=agent.key, max_retries=0
    ) as client:
        stream = client.messages.create(model=CLAUDE, max_tokens=9, messages=QUESTION, stream=True)
        assert next(stream).type == "message_start"
        with pytest.raises(anthropic.APIStatusError, match="upstream 'claude'"):
            next(stream)

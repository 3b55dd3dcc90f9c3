"""Streams and encoded answers, from the wire to the month: passed as they are, and counted."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from counters import Counters
from gateway_stack import Stack
from metered_answers import (
    ASKED,
    EXTRA,
    RESPONSES,
    UNASKED,
    USAGE,
    as_openai_does,
    body,
    delta,
    response,
    sse,
    streaming,
)
from raw_calls import CHAT, PROMPT_TOKENS, call, chat, provision
from raw_upstream import Peer, RawUpstream, answering


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_a_responses_stream_is_counted_by_its_last_event(
    stack: Stack, raw: RawUpstream, status: str
) -> None:
    """The usage stands inside the terminal event, however the response ended, without [DONE]."""
    tenant = provision(stack)
    stream = sse(
        {"type": "response.created", "response": {"status": "in_progress", "usage": None}},
        {"type": "response.output_text.delta", "delta": "hi"},
        {"type": f"response.{status}", "response": response(status)},
        names=["response.created", "response.output_text.delta", f"response.{status}"],
    )
    raw.script = streaming(stream)
    assert call(stack, tenant.agent, RESPONSES, chat(stream=True)).body == stream
    assert Counters(stack, tenant).settled(15)


STREAMS: dict[str, tuple[str, bytes, int]] = {
    "running totals": (
        CHAT,
        sse(*(delta("a", usage={**USAGE, "completion_tokens": n}) for n in range(6)), "[DONE]"),
        15,
    ),
    "usage in a choice": (
        CHAT,
        sse({"choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]}, "[DONE]"),
        15,
    ),
    "usage beside a provider's name": (
        CHAT,
        sse(delta("a"), {**delta(""), "x_groq": {"usage": USAGE}}, "[DONE]"),
        15,
    ),
    "totals that leave reasoning out": (
        CHAT,
        sse(delta("a"), delta("", usage={**USAGE, "total_tokens": 99}), "[DONE]"),
        99,
    ),
    "transcription": (
        "/raw/v1/audio/transcriptions",
        sse({"type": "transcript.text.done", "text": "hi", "usage": response("x")["usage"]}),
        15,
    ),
    "picture": (
        "/raw/v1/images/generations",
        sse(
            {"type": "image_generation.partial_image", "b64_json": "QUJD" * 500},
            {
                "type": "image_generation.completed",
                "b64_json": "QUJD" * 500_000,
                "usage": response("x")["usage"],
            },
        ),
        15,
    ),
    "nothing reported": (
        CHAT,
        sse(delta(""), *(delta("a") for _ in range(9)), {"choices": [{"delta": {}}]}, "[DONE]"),
        PROMPT_TOKENS + 9,
    ),
}


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_of_any_provider_is_counted(stack: Stack, raw: RawUpstream, case: str) -> None:
    """Wherever the usage stands, every byte passes and the sum is the provider's."""
    tenant = provision(stack)
    path, stream, tokens = STREAMS[case]

    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(stream)
        peer.end_stream()

    raw.script = script
    answer = call(stack, tenant.agent, path, chat(stream=True))
    assert answer.body == stream
    assert Counters(stack, tenant).settled(tokens)


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "gzip, br": lambda body: brotli.compress(gzip.compress(body)),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_encoded_answer_passes_as_it_is_and_is_counted(
    stack: Stack, raw: RawUpstream, encoding: str, is_stream: bool
) -> None:
    """The client gets the encoding that it has asked for, and the usage inside is read."""
    tenant = provision(stack)
    plain = sse(delta("a"), EXTRA, "[DONE]") if is_stream else body(USAGE)
    packed = ENCODINGS[encoding](plain)
    kind = b"text/event-stream" if is_stream else b"application/json"
    headers = (b"Content-Type: " + kind, b"Content-Encoding: " + encoding.encode())
    raw.script = lambda peer: peer.answer(packed, *headers)
    asks = {"stream": True, "stream_options": {"include_usage": True}} if is_stream else {}
    offered = {"Accept-Encoding": "gzip, br;q=0.9, zstd, deflate, compress"}
    answer = call(stack, tenant.agent, CHAT, chat(**asks), headers=offered)
    assert answer.body == packed
    assert answer.get("content-encoding") == encoding
    assert raw.requests[0].values(b"accept-encoding") == [b"gzip, br;q=0.9, zstd, deflate"]
    assert Counters(stack, tenant).settled(15)


def test_a_stream_that_states_its_length_is_edited_too(stack: Stack, raw: RawUpstream) -> None:
    """What is left of it is shorter: the length is not passed on, and the end is seen."""
    tenant = provision(stack)
    raw.script = answering(ASKED, b"Content-Type: text/event-stream")
    answer = call(stack, tenant.agent, CHAT, chat(stream=True))
    assert (answer.body, answer.ended) == (UNASKED, True)
    assert answer.get("content-length") is None
    assert Counters(stack, tenant).settled(15)


def test_a_stream_that_is_edited_is_asked_for_plain(stack: Stack, raw: RawUpstream) -> None:
    """Where an event has to be taken out again, no encoding is offered."""
    tenant = provision(stack)
    raw.script = as_openai_does
    offered = {"Accept-Encoding": "gzip, br"}
    assert call(stack, tenant.agent, CHAT, chat(stream=True), headers=offered).body == UNASKED
    assert raw.requests[0].values(b"accept-encoding") == [b"identity"]
    assert Counters(stack, tenant).settled(15)

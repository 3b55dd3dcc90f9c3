"""Any valid stream, cut anywhere: the client gets the same bytes, the month the same sum."""

import json
from dataclasses import dataclass
from itertools import pairwise

import pytest
from counters import Counters
from gateway_stack import Stack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_calls import CHAT, MESSAGES, fields, provision
from raw_client import RawClient, request
from raw_upstream import Peer, RawUpstream

EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20)
FIGURES = st.integers(0, 10**6)


@dataclass
class Stream:
    """What an upstream sends, what the client is to see of it, and what it costs."""

    sent: bytes
    seen: bytes
    tokens: int


def lines(draw: st.DrawFn, *wanted: str) -> bytes:
    """An event of these lines, with one of the line ends that the standard has."""
    end = draw(LINE_ENDS)
    return (end.join(wanted) + end * 2).encode()


def noise(draw: st.DrawFn) -> bytes:
    """What is between events: pings, comments, nothing, odd fields."""
    text = draw(TEXTS)
    return lines(draw, *draw(st.sampled_from([
        (f": {text}",), (":",), ("data:",), ("data: null",), ("event: ping", "data: {}"),
        ("id: 7", "retry: 9"), ("data: [DONE]",), (f"data: not json {text}",), ("",),
    ])))  # fmt: skip


def spelled(draw: st.DrawFn, value: object) -> str:
    """JSON with escapes or without, and with the space that some put in."""
    return json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": ")])),
    )


@st.composite
def openai_streams(draw: st.DrawFn) -> Stream:
    """Chat chunks and running usage, of which the last counts, and noise in every place."""
    sent = [lines(draw, "data: " + spelled(draw, {"choices": [{"delta": {"content": "x"}}]}))]
    prompt, output = draw(FIGURES), draw(st.integers(1, 10**6))
    for _ in range(draw(st.integers(0, 4))):
        delta = {"choices": [{"index": 0, "delta": {"content": draw(TEXTS)}}]}
        sent += [noise(draw), lines(draw, "data: " + spelled(draw, delta))]
    usage = {"prompt_tokens": prompt, "completion_tokens": output}
    last = lines(draw, "data: " + spelled(draw, {"choices": [], "usage": usage}))
    body = b"".join(sent)
    done = lines(draw, "data: [DONE]")
    return Stream(body + last + done, body + done, prompt + output)


@st.composite
def anthropic_streams(draw: st.DrawFn) -> Stream:
    """A start with the input, deltas of text, running output totals of which the last counts."""
    prompt, totals = draw(st.integers(1, 10**6)), draw(st.lists(st.integers(1, 99), min_size=1))
    started = {"type": "message_start",
               "message": {"usage": {"input_tokens": prompt, "output_tokens": 1}}}  # fmt: skip
    sent = [lines(draw, "event: message_start", "data: " + spelled(draw, started))]
    for total in totals:
        text = {"type": "content_block_delta", "delta": {"text": draw(TEXTS)}}
        sent += [noise(draw), lines(draw, "event: content_block_delta", "data: "
                                    + spelled(draw, text))]  # fmt: skip
        running = {"type": "message_delta", "usage": {"output_tokens": total}}
        sent.append(lines(draw, "event: message_delta", "data: " + spelled(draw, running)))
    body = b"".join(sent)
    return Stream(body, body, prompt + totals[-1])


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    """The stream in pieces; the positions beyond its end are left out."""
    edges = sorted({0, len(stream), *(position for position in at if position < len(stream))})
    return [stream[begin:end] for begin, end in pairwise(edges)]


@pytest.mark.parametrize(
    ("target", "streams"), [(CHAT, openai_streams()), (MESSAGES, anthropic_streams())]
)
def test_any_stream_cut_anywhere_is_relayed_and_counted(
    stack: Stack, raw: RawUpstream, target: str, streams: st.SearchStrategy[Stream]
) -> None:
    """One write for each piece: the same bytes but for what was asked for here, the same sum."""
    tenant = provision(stack)
    counters = Counters(stack, tenant)
    total = 0
    body = json.dumps({"messages": [], "stream": True}).encode()

    with RawClient(stack.gateway.port) as client:

        @EXAMPLES
        @given(streams, st.lists(st.integers(1, 1500), max_size=30))
        def relayed(stream: Stream, at: list[int]) -> None:
            nonlocal total

            def script(peer: Peer) -> None:
                peer.start_stream()
                peer.chunk(*cut(stream.sent, at))
                peer.end_stream()

            raw.script = script
            client.send(request("POST", target, fields(tenant.agent), body))
            answer = client.answer("POST")
            total += stream.tokens
            assert (answer.body, answer.ended) == (stream.seen, True)
            assert counters.settled(total), (counters.tokens(), total)

        relayed()

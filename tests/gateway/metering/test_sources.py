"""Streams, watched as they pass: what the client gets, and what they are said to cost."""

from typing import Any

import pytest
from answers import (
    ANSWER,
    JSON,
    PROMPT,
    SSE,
    USAGE,
    chat,
    cost,
    cut,
    estimated,
    injected,
    messages,
    piece,
    prepared,
    reported,
    sse,
)

from gateway.metering import observe
from gateway.metering.sources import LARGEST_SAMPLE
from gateway.metering.tokens import text_tokens


def test_a_stream_costs_what_it_reports() -> None:
    """The usage chunk passes to the client who asked for it, and is counted."""
    body = sse(piece("a"), {"choices": [], "usage": USAGE}, b"[DONE]", b"[DONE]")

    assert cost(chat(), body) == reported(15)


def test_noise_in_a_stream_is_passed_and_ignored() -> None:
    """Comments, empty data, pings and non-JSON do not disturb the reading."""
    body = (
        b': "usage"\n\n:\n\ndata:\n\ndata\n\ndata: null\n\ndata: "usage"\n\n'
        b'event: ping\ndata: {"type":"ping"}\n\ndata: not "usage" at all\n\n'
        b'data: {"usage":\n\ndata: {"usage":null}\n\ndata: [DONE]\n\ndata: [DONE]\n\n'
    )

    assert cost(chat(), body + sse({"usage": USAGE})) == reported(15)
    assert cost(messages(), body + sse({"usage": {"input_tokens": 3, "output_tokens": 4}})) == (
        reported(7)
    )


def test_usage_in_data_of_several_lines_is_read() -> None:
    """Data lines are one document."""
    body = b'data: {"usage":\ndata: {"prompt_tokens":10,\ndata: "completion_tokens":5}}\n\n'

    assert cost(chat(), body) == reported(15)


def test_usage_in_a_last_event_without_its_blank_line_is_read() -> None:
    """The end of the body ends the event."""
    assert cost(chat(), sse({"usage": USAGE}).rstrip()) == reported(15)


def test_a_chunk_that_need_not_change_is_returned_itself() -> None:
    """Without injection each chunk leaves at once as the same object."""
    observer = chat()
    for chunk in cut(sse(piece("\u597d\U0001f642"), {"usage": USAGE}), range(0, 500, 7)):
        assert observer.feed(chunk) is chunk

    assert observer.finish() == b""


def test_an_injected_stream_leaves_as_if_nobody_had_asked() -> None:
    """Null usages and the extra event are gone, everything else is there, event by event."""
    plain = b'data: {"choices":[{"delta":{"content":"\\u597d"}}]}\n\n'
    marked = plain.replace(b"}]}", b'}],"usage":null}')
    extra = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}\n\n'
    observer = injected()

    assert [observer.feed(c) for c in (marked, b": hi\n\n", extra, b"data: [DONE]\n\n")] == [
        plain,
        b": hi\n\n",
        b"",
        b"data: [DONE]\n\n",
    ]
    assert observer.finish() == b""
    assert observer.tokens() == reported(15)


def test_an_injected_answer_that_is_no_stream_is_not_edited() -> None:
    """A JSON answer to a streaming request passes untouched."""
    body = b'{"choices":[],"usage":null}'
    for content_type, status in ((JSON, 200), (JSON, 400), ("text/html", 502)):
        observer = observe("openai", prepared(inject=True), status, content_type, "")
        assert observer.feed(body) is body


def test_an_upstream_may_answer_in_the_dialect_of_the_route() -> None:
    """The route's dialect is read, where an upstream offers both."""
    body = b'{"usage":{"input_tokens":7,"cache_read_input_tokens":3,"output_tokens":5}}'
    on_openai = observe("openai", prepared("/v1/messages"), 200, JSON, "")
    on_anthropic = observe(
        "anthropic", prepared("/v1/chat/completions", "anthropic"), 200, JSON, ""
    )

    assert cost(on_openai, body) == reported(15)
    assert cost(on_anthropic, ANSWER) == reported(15)


def test_a_stream_without_usage_costs_at_least_a_token_per_delta() -> None:
    """Short deltas are a token each."""
    body = sse(*[piece("a")] * 40, b"[DONE]")

    assert cost(chat(), body) == estimated(PROMPT + 40)


TEXT = "to be or not to be, that is the question " * 40
TOKENS = text_tokens(TEXT.encode())


@pytest.mark.parametrize(
    ("path", "dialect", "events"),
    [
        ("/v1/chat/completions", "openai", [piece(TEXT)]),
        ("/v1/chat/completions", "openai", [{"choices": [{"delta": {"reasoning_content": TEXT}}]}]),
        ("/v1/completions", "openai", [{"object": "text_completion", "choices": [{"text": TEXT}]}]),
        (
            "/v1/responses",
            "openai",
            [
                {"type": "response.output_text.delta", "delta": TEXT, "logprobs": []},
                {"type": "response.output_text.done", "text": TEXT},
            ],
        ),
        (
            "/v1/messages",
            "anthropic",
            [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": TEXT}}],
        ),
        (
            "/v1/messages",
            "anthropic",
            [{"delta": {"type": "input_json_delta", "partial_json": TEXT}}],
        ),
    ],
)
def test_long_deltas_cost_what_their_text_does(path: str, dialect: str, events: list[Any]) -> None:
    """In every dialect the text counts as a prompt's does, and a repetition of it is none."""
    observer = observe(dialect, prepared(path, dialect), 200, SSE, "")

    assert cost(observer, sse(*events)) == estimated(PROMPT + TOKENS)


@pytest.mark.parametrize(
    "event",
    [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"type": "response.audio.delta", "delta": "QUJD" * 1_000},
        {
            "type": "content_block_delta",
            "delta": {"type": "signature_delta", "signature": "x" * 99},
        },
        {"choices": [{"delta": {"audio": {"id": "a", "data": "QUJD" * 1_000}}}]},
    ],
)
def test_a_delta_without_text_costs_nothing(event: Any) -> None:
    """Frames, seals and encoded media are no output that could be estimated."""
    assert cost(chat(), sse(*[event] * 30)) == estimated(PROMPT)


def test_a_delta_of_an_unknown_form_is_a_token() -> None:
    """What cannot be looked into is not free."""
    assert cost(chat(), sse(*[{"delta_of": "x"}, b"not JSON: delta"] * 15)) == estimated(
        PROMPT + 30
    )


def test_a_long_stream_is_estimated_from_its_beginning() -> None:
    """Beyond the sample nothing is kept, and the bytes tell how much there was."""
    observer = chat()
    for _ in range(400):
        observer.feed(sse(piece("to be or not to be ")))

    tokens = observer.tokens().tokens - PROMPT
    assert tokens == pytest.approx(text_tokens(b"to be or not to be " * 400), rel=0.05)
    assert sum(map(len, observer._source._tally._sample)) < LARGEST_SAMPLE + 200  # type: ignore[attr-defined]


@pytest.mark.parametrize("first", [{"completion_tokens": 0}, {"completion_tokens": 1}])
def test_what_comes_after_the_last_figure_is_estimated(first: dict[str, int]) -> None:
    """A provider that tells running totals once, or a client that leaves between two of them."""
    observer = chat()
    observer.feed(sse({**piece(""), "usage": {"prompt_tokens": 10, **first}}))
    assert observer.tokens() == reported(10 + first["completion_tokens"])

    observer.feed(sse(*[piece("a")] * 7))
    assert observer.tokens() == estimated(10 + first["completion_tokens"] + 7)

    observer.feed(sse({**piece("a"), "usage": {"prompt_tokens": 10, "completion_tokens": 9}}))
    assert observer.tokens() == reported(19)
    observer.feed(sse({"choices": [{"delta": {}, "finish_reason": "stop"}]}, b"[DONE]"))
    assert observer.tokens() == reported(19)


def test_a_figure_of_the_prompt_alone_covers_no_delta() -> None:
    """Only an output figure says what the deltas before it cost."""
    observer = chat()
    observer.feed(sse(*[piece("a")] * 7, {"usage": {"prompt_tokens": 10}}, {"usage": None}))

    assert observer.tokens() == estimated(10 + 7)


def test_an_aborted_stream_costs_what_was_reported_and_seen() -> None:
    """The reported prompt counts, the output is estimated, and the first figure is its least."""
    started = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 25, "output_tokens": 9}},
    }
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    observer = messages()

    assert observer.tokens() == estimated(PROMPT)
    observer.feed(sse(started))
    assert observer.tokens() == estimated(25 + 9)
    observer.feed(sse(*[text] * 30))
    assert observer.tokens() == estimated(25 + 30)
    observer.feed(sse({"type": "message_delta", "usage": {"output_tokens": 31}}))
    assert observer.tokens() == reported(25 + 31)

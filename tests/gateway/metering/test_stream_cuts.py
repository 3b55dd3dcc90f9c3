"""Any valid stream that tells usage, cut anywhere: the same bytes, and the same sum."""

import json
from typing import Any

from answers import SSE, USAGE, chat, cut, injected, pass_through, piece, prepared, reported
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.metering import Observer, observe

texts = st.text(max_size=12) | st.sampled_from(["\u597d", "\U0001f642", '"usage":null', "data: "])
frames = st.sampled_from(["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n"])
noise = st.sampled_from([": ping", "data:", "data: null", "event: ping\ndata: {}", "data: [DONE]"])
line_ends = st.sampled_from(["\n", "\r\n", "\r"])
cuts = st.lists(st.integers(0, 5_000), max_size=40)


@st.composite
def chat_streams(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Return a stream as an upstream sends it when asked for usage, and when not asked."""
    asked, unasked = "", ""
    tight = (",", ":") if draw(st.booleans()) else (", ", ": ")
    for text in draw(st.lists(texts, max_size=5)):
        end, between = draw(frames), draw(noise) + draw(frames)
        chunk: dict[str, Any] = {"choices": [{"delta": {"content": text}}]}
        escapes = draw(st.booleans())
        for usage in ({"usage": None}, {}):
            event = json.dumps(chunk | usage, separators=tight, ensure_ascii=escapes)
            line = f"data: {event}{end}{between}"
            asked, unasked = (asked + line, unasked) if usage else (asked, unasked + line)
    extra = json.dumps({"choices": [], "usage": USAGE}, separators=tight)
    last = "data: [DONE]" + draw(frames)
    return (
        f"{asked}data: {extra}{draw(frames)}{last}".encode(),
        f"{unasked}{last}".encode(),
    )


@settings(deadline=None)  # the machine may be busy
@given(stream=chat_streams(), at=cuts)
def test_no_cut_changes_what_an_injected_stream_gives(
    stream: tuple[bytes, bytes], at: list[int]
) -> None:
    """Cut anywhere, the client gets the stream of an upstream that nobody had asked."""
    asked, unasked = stream
    observer = injected()

    assert pass_through(observer, cut(asked, at)) == unasked
    assert observer.tokens() == reported(15)


@settings(deadline=None)  # the machine may be busy
@given(stream=chat_streams(), at=cuts)
def test_no_cut_changes_what_an_untouched_stream_gives(
    stream: tuple[bytes, bytes], at: list[int]
) -> None:
    """Cut anywhere, a stream whose client asked passes whole, and the sum is right."""
    asked, _ = stream
    observer = chat()

    assert pass_through(observer, cut(asked, at)) == asked
    assert observer.tokens() == reported(15)


figures = st.integers(1, 10**9)


@st.composite
def answers(draw: st.DrawFn) -> tuple[Observer, bytes, int]:
    """Return an observer, a stream of its dialect among other events, and what that costs."""
    prompt, outputs = draw(figures), draw(st.lists(figures, min_size=1, max_size=4))
    name, path, events = draw(
        st.sampled_from(
            [
                ("openai", "/v1/chat/completions", _running(prompt, outputs)),
                ("openai", "/v1/responses", _terminal(prompt, outputs)),
                ("anthropic", "/v1/messages", _messages(prompt, outputs)),
            ]
        )
    )
    stream = ""
    for event in events:
        stream += f"event: x{draw(line_ends)}data: {json.dumps(event, ensure_ascii=False)}"
        stream += draw(frames) + draw(noise) + draw(frames)
    stream += draw(st.sampled_from(["", "data: [DONE]\n\n", "data: [DONE]\r\n\r\ndata: [DONE]"]))
    observer = observe(name, prepared(path, name), 200, SSE, "")
    return observer, stream.encode(), prompt + outputs[-1]


def _running(prompt: int, outputs: list[int]) -> list[dict[str, Any]]:
    usages = [{"prompt_tokens": prompt, "completion_tokens": output} for output in outputs]
    chunks = [{**piece("\u597d\U0001f642"), "usage": usage} for usage in (None, *usages)]
    return [*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None}]


def _terminal(prompt: int, outputs: list[int]) -> list[dict[str, Any]]:
    usage = {"input_tokens": prompt, "output_tokens": outputs[-1]}
    return [
        {"type": "response.created", "response": {"usage": None}},
        {"type": "response.output_text.delta", "delta": '\u597d "usage": null'},
        {"type": "response.incomplete", "response": {"status": "incomplete", "usage": usage}},
    ]


def _messages(prompt: int, outputs: list[int]) -> list[dict[str, Any]]:
    return [
        {"message": {"usage": {"input_tokens": prompt, "output_tokens": 1}}},
        {"type": "content_block_delta", "delta": {"text": "\u597d\n\ndata: {}"}},
        *({"type": "message_delta", "usage": {"output_tokens": output}} for output in outputs),
    ]


@settings(deadline=None)  # the machine may be busy
@given(answer=answers(), at=cuts)
def test_no_cut_changes_what_a_stream_of_any_dialect_costs(
    answer: tuple[Observer, bytes, int], at: list[int]
) -> None:
    """Whatever its line ends and what is between, the bytes pass and the latest figures count."""
    observer, stream, tokens = answer

    assert pass_through(observer, cut(stream, at)) == stream
    assert observer.tokens() == reported(tokens)

"""Any valid stream that tells usage, cut anywhere: the same bytes, and the same sum."""

import json
from typing import Any

from answers import USAGE, chat, cut, injected, messages, pass_through, reported
from hypothesis import given, settings
from hypothesis import strategies as st

texts = st.text(max_size=12) | st.sampled_from(["\u597d", "\U0001f642", '"usage":null', "data: "])
frames = st.sampled_from(["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n"])
noise = st.sampled_from([": ping", "data:", "data: null", "event: ping\ndata: {}", "data: [DONE]"])
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


figures = st.integers(0, 10**9)


@settings(deadline=None)  # the machine may be busy
@given(
    prompt=figures,
    outputs=st.lists(st.integers(1, 10**9), min_size=1, max_size=4),
    end=frames,
    at=cuts,
)
def test_no_cut_changes_what_a_message_stream_costs(
    prompt: int, outputs: list[int], end: str, at: list[int]
) -> None:
    """Cut anywhere, the latest figures are summed once."""
    first = {"message": {"usage": {"input_tokens": prompt, "output_tokens": 1}}}
    later = [{"type": "message_delta", "usage": {"output_tokens": n}} for n in outputs]
    body = "".join(f"event: x\ndata: {json.dumps(d)}{end}" for d in [first, *later]).encode()
    observer = messages()

    assert pass_through(observer, cut(body, at)) == body
    assert observer.tokens() == reported(prompt + outputs[-1])

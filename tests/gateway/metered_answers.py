"""Answers of providers that report usage, and scripts of an upstream that gives them."""

import json
from collections.abc import Iterable
from typing import Any

from raw_upstream import Peer, Script

RESPONSES = "/raw/v1/responses"


def sse(*events: Any, names: Iterable[str] = ()) -> bytes:
    """Events of JSON, or of text as it is; Anthropic's and the responses' have names."""
    found = list(names)
    lines = [f"event: {name}\n" for name in found] or [""] * len(events)
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(
        f"{line}data: {text}\n\n" for line, text in zip(lines, texts, strict=True)
    ).encode()


def streaming(stream: bytes) -> Script:
    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(*(stream[at : at + 50] for at in range(0, len(stream), 50)))
        peer.end_stream()

    return script


def delta(text: str, **members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}], **members}


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
EXTRA = {"choices": [], "usage": USAGE}
UNASKED = sse(delta("a"), delta("b"), "[DONE]")
ASKED = sse(delta("a", usage=None), delta("b", usage=None), EXTRA, "[DONE]")


def as_openai_does(peer: Peer) -> None:
    """Report the usage of a stream where it is asked for, and only there."""
    options = json.loads(peer.received.body).get("stream_options") or {}
    streaming(ASKED if options.get("include_usage") else UNASKED)(peer)


def response(status: str) -> dict[str, Any]:
    details = {"output_tokens_details": {"reasoning_tokens": 3}}
    return {"status": status, "usage": {"input_tokens": 10, "output_tokens": 5, **details}}


def body(usage: Any, **members: Any) -> bytes:
    return json.dumps({**members, "usage": usage}).encode()

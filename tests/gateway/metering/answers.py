"""Answers of upstreams, and observers to show them to."""

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from gateway.metering import Observer, Prepared, Usage, meter_for, observe

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"
PROMPT = 100


def prepared(
    path: str = "/v1/chat/completions", dialect: str = "openai", *, inject: bool = False
) -> Prepared:
    meter = meter_for(dialect, path, "POST")
    assert meter is not None
    body = json.dumps({"stream": True, "prompt": list(range(PROMPT))})
    return meter.prepare(body.encode(), 500, inject=inject)


def chat(content_type: str = SSE, *, status: int = 200, encoding: str = "") -> Observer:
    return observe("openai", prepared(), status, content_type, encoding)


def injected() -> Observer:
    return observe("openai", prepared(inject=True), 200, SSE, "")


def messages(content_type: str = SSE) -> Observer:
    return observe("anthropic", prepared("/v1/messages", "anthropic"), 200, content_type, "")


def pass_through(observer: Observer, chunks: Iterable[bytes]) -> bytes:
    return b"".join([*(observer.feed(chunk) for chunk in chunks), observer.finish()])


def cost(observer: Observer, body: bytes) -> Usage:
    assert pass_through(observer, [body]) == body
    return observer.tokens()


def reported(tokens: int) -> Usage:
    return Usage(tokens, estimated=False)


def estimated(tokens: int) -> Usage:
    return Usage(tokens, estimated=True)


def cut(body: bytes, positions: Iterable[int]) -> list[bytes]:
    edges = sorted({0, len(body), *(at % (len(body) + 1) for at in positions)})
    return [body[a:b] for a, b in pairwise(edges)]


def sse(*data: Any) -> bytes:
    return b"".join(
        b"data: " + (d if isinstance(d, bytes) else json.dumps(d).encode()) + b"\n\n" for d in data
    )


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
ANSWER = json.dumps({"choices": [{"message": {"content": "hi"}}], "usage": USAGE}).encode()


def piece(text: str) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"delta": {"content": text}}]}

"""One answer, watched as it passes: JSON, and what is no answer."""

import json
from typing import Any

import pytest
from answers import ANSWER, JSON, PROMPT, SSE, USAGE, chat, cost, estimated, prepared, reported, sse

from gateway.metering import Observer, observe
from gateway.metering.openai import OpenAIReader
from gateway.metering.sources import LARGEST_BODY, LARGEST_TAIL, JsonSource
from gateway.metering.tokens import text_tokens


@pytest.mark.parametrize(
    "content_type",
    [JSON, "application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json", ""],
)
def test_a_json_answer_costs_what_it_reports(content_type: str) -> None:
    """The usage of a whole body counts, also where a metered answer names no type."""
    assert cost(chat(content_type), ANSWER) == reported(15)


def test_a_json_answer_is_read_whatever_the_chunks() -> None:
    """Cut into bytes, the body gives the same figure, and each byte is passed at once."""
    observer = chat(JSON)
    for i in range(len(ANSWER)):
        chunk = ANSWER[i : i + 1]
        assert observer.feed(chunk) is chunk

    assert observer.finish() == b""
    assert observer.tokens() == reported(15)


@pytest.mark.parametrize(
    "body",
    [
        {"usage": {"prompt_tokens": 8, "total_tokens": 8}, "data": []},
        {"usage": {"prompt_tokens": 8}, "data": []},
    ],
)
def test_embeddings_cost_their_prompt(body: dict[str, Any]) -> None:
    """Without an output there is none to estimate, and the figure is exact."""
    observer = observe("openai", prepared("/v1/embeddings"), 200, JSON, "")

    assert cost(observer, json.dumps(body).encode()) == reported(8)


def test_embeddings_without_usage_cost_the_prompt_estimate() -> None:
    """The vectors in the answer are not taken for output."""
    observer = observe("openai", prepared("/v1/embeddings"), 200, JSON, "")

    assert cost(observer, b'{"data":"' + b"x" * 40_000 + b'"}') == estimated(PROMPT)


TEXT = "to be or not to be, that is the question " * 20
TEXT_TOKENS = text_tokens(TEXT.encode())


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"role": "assistant", "content": TEXT}, "logprobs": [1, 2]}]},
        {"choices": [{"text": TEXT, "finish_reason": "stop"}]},
        {"output": [{"id": "m", "type": "message", "content": [{"type": "x", "text": TEXT}]}]},
        {"id": "m", "role": "assistant", "content": [{"type": "text", "text": TEXT}]},
    ],
)
def test_a_metered_answer_without_usage_is_estimated(answer: dict[str, Any]) -> None:
    """The prompt as estimated, and the text in the answer, without what surrounds it."""
    usage = cost(chat(JSON), json.dumps(answer).encode())

    assert usage.estimated
    assert usage.tokens - PROMPT == pytest.approx(TEXT_TOKENS, abs=3)


def test_an_answer_that_is_still_to_come_costs_its_prompt() -> None:
    """A background response has no output yet when it is accepted."""
    body = b'{"id":"resp_1","status":"queued","background":true,"output":[],"usage":null}'

    assert cost(chat(JSON), body) == estimated(PROMPT)


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":"broken off',
        b'{"a":' * 10_000,
        b'{"unknown":"shape of an answer"}',
    ],
)
def test_an_object_that_cannot_be_understood_is_estimated(body: bytes) -> None:
    """What begins as an answer is not free because its end is broken, or its form is not known."""
    assert cost(chat(JSON), body) == estimated(PROMPT + text_tokens(body))


def test_a_missing_figure_is_estimated_beside_a_reported_one() -> None:
    """Figures that cannot be true fall out one by one, and the sum says so."""
    body = b'{"choices":[{"text":"Hello"}],"usage":{"prompt_tokens":10,"completion_tokens":-5}}'

    assert cost(chat(JSON), body) == estimated(10 + 1)


@pytest.mark.parametrize("content_type", [JSON, "text/html", "text/plain", "", SSE])
def test_an_empty_answer_costs_nothing(content_type: str) -> None:
    """A complete answer without a byte was no model's work."""
    assert cost(chat(content_type), b"") == reported(0)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", b"<html>sorry</html>"),
        (JSON, b"<html>sorry</html>"),
        (JSON, b"[]"),
        (JSON, b"null"),
        (JSON, b"\xff\xfe\x00"),
        (JSON, b'{"text":"\xff"}'),
        (JSON, b'{"error":{"message":"overloaded"}}'),
        ("audio/mpeg", b"\x00" * 5_000),
    ],
)
def test_what_is_no_models_answer_costs_nothing(content_type: str, body: bytes) -> None:
    """A page of HTML, no object, no text, or an error only: passes as it is and is not charged."""
    assert cost(chat(content_type), body) == reported(0)


@pytest.mark.parametrize("status", [302, 400, 401, 429, 500, 502, 529])
def test_a_failed_request_costs_only_what_is_reported(status: int) -> None:
    """Without a 2xx nothing is estimated."""
    assert cost(chat(JSON, status=status), b'{"error":{"message":"no"}}') == reported(0)
    assert cost(chat("text/html", status=status), b"<html>") == reported(0)
    assert cost(chat(SSE, status=status), sse({"choices": [{"delta": {}}]})) == reported(0)
    assert cost(chat(JSON, status=status), ANSWER) == reported(15)


@pytest.mark.parametrize(
    ("content_type", "body", "tokens"),
    [
        (JSON, b'{"data":[]}', 0),
        (JSON, ANSWER, 15),
        (JSON, b'{"data":[],"usage":{"input_tokens":40,"output_tokens":60}}', 100),
        (JSON, b'{"usage":{"input_tokens":40}}', 40),
        (JSON, b'{"input_tokens":2095}', 0),
        ("audio/mpeg", b"\x00" * 500, 0),
        ("text/plain", ANSWER, 0),
        (SSE, b'data: {"type":"x","usage":{"input_tokens":4,"output_tokens":6}}\n\n', 10),
        (SSE, b'data: {"delta":"hello"}\n\n', 0),
    ],
)
def test_an_unmetered_answer_costs_what_it_reports(
    content_type: str, body: bytes, tokens: int
) -> None:
    """Any usage counts, whatever the route, and nothing is estimated."""
    assert cost(observe("openai", None, 200, content_type, ""), body) == reported(tokens)


def giant(body: bytes) -> Observer:
    observer = chat(JSON)
    for begin in range(0, len(body), 1 << 20):
        chunk = body[begin : begin + (1 << 20)]
        assert observer.feed(chunk) is chunk
    observer.finish()
    return observer


@pytest.mark.parametrize(
    "end",
    [
        b'"usage":%s}' % json.dumps(USAGE).encode(),
        b'"x":{"usage":{"total_tokens":7}},"usage":%s}' % json.dumps(USAGE).encode(),
        b'"usage" : %s , "model": "x", "service_tier": {"a": 1} }' % json.dumps(USAGE).encode(),
    ],
)
def test_the_usage_at_the_end_of_a_giant_body_is_read(end: bytes) -> None:
    """A body beyond the bound is not kept, but for its end: thousands of embeddings are counted."""
    observer = giant(b'{"data":"' + b"x" * LARGEST_BODY + b'",' + end)

    assert observer.tokens() == reported(15)


@pytest.mark.parametrize(
    "end", [b'"a":1}', b'"usage":null}', b'"usage"}', b'"usage":{"prompt_tokens":1', b'"usage":7}']
)
def test_a_giant_body_without_usage_at_its_end_is_estimated(end: bytes) -> None:
    """It passes whole, and four of its bytes are a token."""
    body = b'{"usage":{"prompt_tokens":1,"completion_tokens":1},"text":"'
    body += b"x" * LARGEST_BODY + b'",' + end

    assert giant(body).tokens() == estimated(PROMPT + -(-len(body) // 4))


def test_no_more_than_the_end_of_a_giant_body_is_kept() -> None:
    """Memory is bounded, however long the body goes on."""
    source = JsonSource(OpenAIReader())
    largest = 0
    for _ in range(24):
        source.feed(b"x" * (1 << 20))
        largest = max(largest, len(source._kept))

    assert largest <= LARGEST_BODY
    assert len(source._kept) <= 2 * LARGEST_TAIL


def test_an_aborted_json_answer_is_estimated() -> None:
    """Before the end, the beginning of an object is charged as far as it was seen."""
    observer = chat(JSON)
    assert observer.tokens() == estimated(PROMPT)

    beginning = b'{"text":"to be or not to'
    observer.feed(beginning)

    assert observer.tokens() == estimated(PROMPT + text_tokens(beginning))


def test_a_json_answer_that_is_complete_counts_before_its_end_is_known() -> None:
    """A client that leaves after the last byte has been told the usage."""
    observer = chat(JSON)
    observer.feed(ANSWER)

    assert observer.tokens() == reported(15)


def test_asking_twice_gives_the_same_answer() -> None:
    """Telling the cost changes nothing."""
    for observer, body in ((chat(JSON), ANSWER), (chat(), sse({"usage": USAGE}))):
        cost(observer, body)
        assert observer.tokens() == observer.tokens() == reported(15)

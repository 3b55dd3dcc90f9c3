"""One answer, watched as it passes: JSON, encodings, and what is no answer."""

import gzip
import json
import zlib
from typing import Any

import pytest
from answers import ANSWER, JSON, PROMPT, SSE, USAGE, chat, cost, estimated, prepared, reported, sse

from gateway.metering import observe
from gateway.metering.sources import LARGEST_BODY


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


def test_a_metered_answer_without_usage_is_estimated() -> None:
    """The prompt as estimated, and four bytes of the body to a token."""
    body = b'{"text":"' + b"x" * 389 + b'"}'

    assert cost(chat(JSON), body) == estimated(PROMPT + 100)


@pytest.mark.parametrize("body", [b'{"text":"broken off', b'{"text":"\xff"}', b'{"a":' * 10_000])
def test_an_object_that_cannot_be_read_to_its_end_is_estimated(body: bytes) -> None:
    """What begins as an answer is not free because its end is broken."""
    assert cost(chat(JSON), body) == estimated(PROMPT + -(-len(body) // 4))


def test_a_missing_figure_is_estimated_beside_a_reported_one() -> None:
    """Figures that cannot be true fall out one by one, and the sum says so."""
    body = b'{"usage":{"prompt_tokens":10,"completion_tokens":-5}}'

    assert cost(chat(JSON), body) == estimated(10 + -(-len(body) // 4))


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
        ("audio/mpeg", b"\x00" * 5_000),
    ],
)
def test_what_is_no_models_answer_costs_nothing(content_type: str, body: bytes) -> None:
    """A page of HTML, or JSON that is no object, passes as it is and is not charged."""
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


def test_a_body_beyond_the_bound_is_not_kept() -> None:
    """The usage of a giant body is not read; it passes whole, and is estimated."""
    body = b'{"text":"' + b"x" * LARGEST_BODY + b'",' + ANSWER[1:]
    observer = chat(JSON)
    for begin in range(0, len(body), 1 << 20):
        chunk = body[begin : begin + (1 << 20)]
        assert observer.feed(chunk) is chunk
    observer.finish()

    assert observer.tokens() == estimated(PROMPT + -(-len(body) // 4))


def test_an_aborted_json_answer_is_estimated() -> None:
    """Before the end, the beginning of an object is charged as far as it was seen."""
    observer = chat(JSON)
    assert observer.tokens() == estimated(PROMPT)

    observer.feed(b'{"text":"' + b"x" * 391)

    assert observer.tokens() == estimated(PROMPT + 100)


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


def bare_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZip ", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", bare_deflate),
        ("identity", bytes),
    ],
)
@pytest.mark.parametrize(("content_type", "body"), [(JSON, ANSWER), (SSE, sse({"usage": USAGE}))])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_an_encoded_answer_is_read_on_the_side(
    encoding: str, pack: Any, content_type: str, body: bytes, step: int
) -> None:
    """The client's bytes stay encoded, and the usage is found."""
    packed = pack(body)
    observer = chat(content_type, encoding=encoding)
    for i in range(0, len(packed), step):
        chunk = packed[i : i + step]
        assert observer.feed(chunk) is chunk

    assert observer.finish() == b""
    assert observer.tokens() == reported(15)


def test_an_injected_stream_that_comes_encoded_is_passed_untouched() -> None:
    """What cannot be edited is still read."""
    packed = gzip.compress(sse({"choices": [], "usage": USAGE}))
    observer = observe("openai", prepared(inject=True), 200, SSE, "gzip")

    assert observer.feed(packed) is packed
    assert observer.finish() == b""
    assert observer.tokens() == reported(15)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br"])
@pytest.mark.parametrize("content_type", [JSON, SSE])
def test_an_answer_in_an_encoding_that_is_not_read_is_estimated(
    encoding: str, content_type: str
) -> None:
    """Its bytes are all that can be seen."""
    assert cost(chat(content_type, encoding=encoding), b"\x8b" * 400) == estimated(PROMPT + 100)


@pytest.mark.parametrize(
    "body",
    [b"not packed at all", gzip.compress(ANSWER)[:12] + b"\xff" * 40, b"\x00\xff" * 20],
)
def test_a_broken_encoding_is_passed_and_estimated(body: bytes) -> None:
    """A body that cannot be unpacked reaches the client, and is not free."""
    usage = cost(chat(JSON, encoding="gzip"), body + body)

    assert usage.estimated
    assert usage.tokens >= PROMPT


def test_a_body_that_grows_without_measure_is_not_unpacked() -> None:
    """A few kilobytes that become many megabytes stay what they are."""
    bomb = gzip.compress(ANSWER[:-1] + b" " * (64 << 20) + b"}")
    assert len(bomb) < 1 << 17

    assert cost(chat(JSON, encoding="gzip"), bomb) == estimated(PROMPT)

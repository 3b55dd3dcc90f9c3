"""The prompt estimate."""

import json
import time
from typing import Any

import pytest

from gateway.metering import Prepared, meter_for
from gateway.metering.estimate import MEDIA_TOKENS, MESSAGE_TOKENS, prompt_tokens
from gateway.metering.tokens import text_tokens

IMAGE = "A" * 400_000
HALF = "to be or not to be " * 40
TEXT = HALF + HALF


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("", 1),
        ("a", 1),
        ("Hello", 1),
        ("to be or not to be", 5),
        (None, 1),
        (7, 1),
        (True, 1),
        ([], 1),
        ({}, 1),
        (list(range(500)), 500),
        ([list(range(5)), list(range(7))], 12),
        (["to be or", "not to be"], 5),
        ({"text": "to be or", "more": ["not", {"text": "to be"}]}, 5),
    ],
)
def test_text_counts_wherever_it_stands_and_token_ids_by_number(value: Any, tokens: int) -> None:
    """Strings count as one text, an id is a token, and no prompt is free."""
    assert prompt_tokens([value]) == tokens


def test_json_that_a_model_reads_counts_as_text() -> None:
    """Definitions of tools are counted as they are written."""
    tools = b'[{"name":"search","description":"Find a page"}]'

    assert prompt_tokens(["Hello"], tools) == 1 + text_tokens(tools)


@pytest.mark.parametrize("name", ["id", "type", "signature", "encrypted_content"])
def test_names_and_seals_are_no_text(name: str) -> None:
    """What the API sends along for itself costs nothing, however long it is."""
    part = {name: "QmFzZTY0" * 500, "text": "to be or not to be"}

    assert prompt_tokens([[part]]) == 5 + MESSAGE_TOKENS


def test_each_message_costs_a_few_tokens_for_its_frame() -> None:
    """Ten short messages cost more than their text in one."""
    one = prompt_tokens([[{"content": " ".join(["word"] * 10)}]])
    ten = prompt_tokens([[{"content": "word"}] * 10])

    assert ten - one == 9 * MESSAGE_TOKENS


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://host.example/" + "x" * 900}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
        {"type": "input_audio", "input_audio": {"data": IMAGE, "format": "wav"}},
        {"source": {"type": "base64", "media_type": "application/pdf", "data": IMAGE}},
        {"type": "image", "source": {"type": "base64", "data": IMAGE}},
        {"file_data": f"data:application/pdf;base64,{IMAGE}"},
    ],
)
def test_media_count_flat_however_long_they_are(part: dict[str, Any]) -> None:
    """An encoded picture is not taken for a hundred thousand tokens of text."""
    message = {"content": [part]}

    assert prompt_tokens([[message]]) == MEDIA_TOKENS + MESSAGE_TOKENS


@pytest.mark.parametrize("text", ["data: " + "x" * 8_000, "data:" + "x" * 8_000])
def test_text_that_begins_like_a_data_url_counts_by_its_length(text: str) -> None:
    """Only an encoded payload is flat; a prompt cannot call itself one."""
    assert prompt_tokens([text]) > 2_000


def test_a_member_named_type_may_hold_anything() -> None:
    """A schema or a client's mistake under `type` is neither media nor a failure."""
    assert prompt_tokens([{"type": {"type": ["base64"]}, "x": "Hello"}]) == 1


def test_deep_nesting_is_walked_without_recursion() -> None:
    """The depth of a prompt is the client's choice."""
    value: Any = "to be or not to be"
    for _ in range(50_000):
        value = [value]

    assert prompt_tokens([value]) == 5
    while isinstance(value, list):  # taken apart here, or its own disposal would recurse
        value = value.pop()


def prepared(dialect: str, path: str, body: dict[str, Any]) -> Prepared:
    meter = meter_for(dialect, path, "POST")
    assert meter is not None
    return meter.prepare(json.dumps(body).encode(), 0)


@pytest.mark.parametrize(
    ("dialect", "path", "field", "value"),
    [
        ("openai", "/v1/chat/completions", "messages", [{"content": TEXT}]),
        ("openai", "/v1/chat/completions", "tools", [{"description": TEXT}]),
        ("openai", "/v1/chat/completions", "functions", [{"description": TEXT}]),
        ("openai", "/v1/completions", "prompt", TEXT),
        ("openai", "/v1/responses", "input", [{"content": TEXT}]),
        ("openai", "/v1/responses", "instructions", TEXT),
        ("openai", "/v1/embeddings", "input", [HALF, HALF]),
        ("anthropic", "/v1/messages", "system", [{"type": "text", "text": TEXT}]),
        ("anthropic", "/v1/messages", "messages", [{"content": TEXT}]),
        ("anthropic", "/v1/messages", "tools", [{"description": TEXT}]),
    ],
)
def test_every_member_that_a_model_reads_is_counted(
    dialect: str, path: str, field: str, value: Any
) -> None:
    """A text costs the same wherever the endpoint lets a client put it, but for a frame."""
    tokens = prompt_tokens([TEXT])

    assert tokens <= prepared(dialect, path, {field: value}).prompt_tokens <= tokens + 20


def test_the_same_body_always_gives_the_same_estimate() -> None:
    """An estimate is a function of the body."""
    body = {"messages": [{"role": "user", "content": "hello " * 50}], "tools": [{"name": "x"}]}

    estimates = {prepared("openai", "/v1/chat/completions", body).prompt_tokens for _ in range(5)}

    assert len(estimates) == 1


def test_a_small_body_is_prepared_in_microseconds() -> None:
    """The estimate stays cheap: far below a millisecond, with room for a slow machine."""
    body = {"messages": [{"role": "user", "content": "hello " * 50}] * 10}
    prepared("openai", "/v1/chat/completions", body)

    best = 1.0
    for _ in range(20):
        begun = time.perf_counter()
        prepared("openai", "/v1/chat/completions", body)
        best = min(best, time.perf_counter() - begun)

    assert best < 0.001

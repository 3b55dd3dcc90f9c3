"""Usage in Anthropic's dialect, in whole answers and in streams."""

import json
from typing import Any

import pytest

from gateway.metering.anthropic import AnthropicReader
from gateway.metering.figures import Reported


def start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"role": "assistant", "usage": usage}}


def delta(**usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}


def fed(*documents: dict[str, Any]) -> AnthropicReader:
    reader = AnthropicReader()
    for document in documents:
        event = b"event: x\ndata: " + json.dumps(document).encode() + b"\n\n"
        assert reader.event(event) is event
    return reader


@pytest.mark.parametrize(
    ("events", "total"),
    [
        ([start(input_tokens=25, output_tokens=1), delta(output_tokens=15)], 40),
        (
            [start(input_tokens=25, output_tokens=1), delta(input_tokens=25, output_tokens=15)],
            40,
        ),
        (
            [
                start(input_tokens=25, output_tokens=1),
                delta(output_tokens=5),
                delta(output_tokens=15),
            ],
            40,
        ),
        ([start(input_tokens=25), delta(input_tokens=300, output_tokens=15)], 315),
        ([start(input_tokens=25), delta(input_tokens=0, output_tokens=15)], 40),
        ([start(input_tokens=25), delta(input_tokens=None, output_tokens=15)], 40),
        ([start(input_tokens=0), delta(input_tokens=25, output_tokens=15)], 40),
        (
            [
                start(input_tokens=7, cache_read_input_tokens=9_993),
                delta(cache_read_input_tokens=9_993, output_tokens=10),
            ],
            10_010,
        ),
        ([start(input_tokens=25, output_tokens=9), delta(output_tokens=0)], 25),
    ],
)
def test_each_field_of_a_stream_counts_once(events: list[dict[str, Any]], total: int) -> None:
    """The latest figure of each field is kept, and they are summed at the end."""
    reported = fed(*events).reported()

    assert reported.prompt is not None
    assert reported.output is not None
    assert reported.prompt + reported.output == total


@pytest.mark.parametrize(
    ("usage", "prompt", "output"),
    [
        (
            {
                "input_tokens": 7,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 9_993,
                "output_tokens": 10,
            },
            10_000,
            10,
        ),
        (
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": 20,
                "cache_creation": {"ephemeral_5m_input_tokens": 20},
                "output_tokens": 3,
            },
            21,
            3,
        ),
        ({"input_tokens": 7, "cache_read_input_tokens": None, "output_tokens": 10}, 7, 10),
        ({"input_tokens": -7, "output_tokens": 10}, None, 10),
        ({"input_tokens": 7, "output_tokens": 1.5}, 7, None),
        ({"input_tokens": 7.0, "output_tokens": 1e3}, 7, 1000),
        (
            {
                "input_tokens": 1,
                "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 9},
                "output_tokens": 3,
                "server_tool_use": {"web_search_requests": 4},
                "service_tier": "standard",
            },
            30,
            3,
        ),
        ({"input_tokens": 7, "cache_creation": "20", "output_tokens": 3}, 7, 3),
        (None, None, None),
    ],
)
def test_cached_input_is_added_once(usage: Any, prompt: int | None, output: int | None) -> None:
    """The input figure leaves cached tokens out; their breakdown is not added again."""
    reader = AnthropicReader()
    reader.document(json.dumps({"type": "message", "usage": usage}).encode())

    assert reader.reported() == Reported(prompt, output)


COMPACTION = {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500}
LAST = {
    "type": "message",
    "input_tokens": 23_000,
    "cache_read_input_tokens": 100,
    "output_tokens": 1_000,
}


@pytest.mark.parametrize(
    ("iterations", "prompt", "output"),
    [
        ([COMPACTION, LAST], 203_100, 4_500),
        ([LAST], 23_100, 1_000),
        ([], 23_100, 1_000),
        (None, 23_100, 1_000),
        ([{"input_tokens": 3, "output_tokens": 2}], 23_100, 1_000),
        ([None, 7, {"input_tokens": "9"}, {"output_tokens": -1}], 23_100, 1_000),
    ],
)
def test_every_sample_of_an_answer_counts(iterations: Any, prompt: int, output: int) -> None:
    """The figures on top leave out what the list of samples has; a list of one changes nothing."""
    usage = {**LAST, "iterations": iterations}
    whole = AnthropicReader()
    whole.document(json.dumps({"usage": usage}).encode())

    assert whole.reported() == Reported(prompt, output)
    assert fed(start(input_tokens=25), delta(**usage)).reported() == Reported(prompt, output)


def test_cache_writes_count_once_however_often_they_are_told() -> None:
    """On top, as a split and in the samples: the largest of the three sums is the figure."""
    usage = {
        "cache_creation_input_tokens": 20,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
        "iterations": [{"cache_creation_input_tokens": 8}, {"cache_creation_input_tokens": 12}],
        "output_tokens": 1,
    }

    assert fed(delta(**usage)).reported() == Reported(20, 1)


def test_each_event_that_tells_an_output_is_a_report() -> None:
    """The placeholder at the start of a stream is none, nor is an event without a figure."""
    reader = fed(start(input_tokens=25, output_tokens=1), delta(input_tokens=25), delta())
    assert reader.reports == 0

    assert fed(delta(output_tokens=5), delta(output_tokens=9)).reports == 2


def test_the_output_at_the_start_of_a_stream_is_not_final() -> None:
    """A stream that breaks off has reported its prompt, and a lower bound of its output."""
    reader = fed(start(input_tokens=25, output_tokens=3))

    assert reader.reported() == Reported(25, None)
    assert reader.least_output == 3


def test_an_answer_of_token_counting_has_no_usage() -> None:
    """A figure on top of the body is an answer, not a cost."""
    reader = AnthropicReader()
    reader.document(b'{"input_tokens": 2095}')

    assert reader.reported() == Reported(None, None)


@pytest.mark.parametrize("data", [b"null", b"[]", b"{", b'{"message":"usage"}', b'"usage"', b"["])
def test_an_event_of_another_shape_is_passed_and_ignored(data: bytes) -> None:
    """What cannot be read reports nothing and is not touched."""
    reader = AnthropicReader()
    event = b"data: " + data + b"\n\n"

    assert reader.event(event) is event
    assert reader.reported() == Reported(None, None)

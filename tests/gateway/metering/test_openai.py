"""Usage in OpenAI's dialect, in whole answers and in streams."""

import json
from typing import Any

import pytest

from gateway.metering.figures import Reported
from gateway.metering.openai import OpenAIReader

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def read(*documents: Any) -> Reported:
    reader = OpenAIReader()
    for document in documents:
        reader.event(b"data: " + json.dumps(document).encode() + b"\n\n")
    return reader.reported()


def stripped(event: bytes) -> bytes:
    return OpenAIReader(strip=True).event(event)


@pytest.mark.parametrize(
    ("usage", "prompt", "output"),
    [
        (USAGE, 10, 5),
        (
            {
                "prompt_tokens": 10_000,
                "completion_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 9_000},
                "completion_tokens_details": {"reasoning_tokens": 8},
            },
            10_000,
            10,
        ),
        (
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "total_tokens": 15,
                "output_tokens_details": {"reasoning_tokens": 3},
            },
            10,
            5,
        ),
        ({"prompt_tokens": 8, "total_tokens": 8}, 8, 0),
        ({"total_tokens": 12}, 12, 0),
        ({"completion_tokens": 5, "total_tokens": 15}, 10, 5),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 99}, 10, 89),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 9}, 10, 5),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 10**10}, 10, 5),
        (
            {"prompt_tokens": 0, "input_tokens": 10, "completion_tokens": 0, "output_tokens": 5},
            10,
            5,
        ),
        ({"prompt_tokens": 10.0, "completion_tokens": 5.0}, 10, 5),
        ({"prompt_tokens": "10", "completion_tokens": 2.5, "total_tokens": 15}, 15, 0),
        ({"type": "duration", "seconds": 9}, None, None),
        ({"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59}, 14, 45),
        ({"prompt_tokens": {"a": 1}, "completion_tokens": [5], "total_tokens": 2**63}, None, None),
        ({"prompt_tokens": 10, "input_tokens": 10, "completion_tokens": 5}, 10, 5),
        ({"prompt_tokens": 10}, 10, None),
        ({"prompt_tokens": -1, "completion_tokens": 5}, None, 5),
        ({"prompt_tokens": 10, "completion_tokens": 10**10}, 10, None),
        ({"prompt_tokens": 20, "total_tokens": 8}, 20, 0),
        ({}, None, None),
        (None, None, None),
        ("usage", None, None),
    ],
)
def test_prompt_and_output_are_read_once_each(
    usage: Any, prompt: int | None, output: int | None
) -> None:
    """Details are parts and not added; a total stands only for what is missing."""
    document = json.dumps({"usage": usage, "choices": [{"usage": 7}]}).encode()
    reader = OpenAIReader()
    reader.document(document)

    assert reader.reported() == Reported(prompt, output)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"null", b'"x"', b"{", b"\xff", b"[" * 10**5]
)
def test_what_is_no_object_reports_nothing(body: bytes) -> None:
    """A reader is not disturbed by what a broken upstream sends."""
    reader = OpenAIReader()
    reader.document(body)

    assert reader.reported() == Reported(None, None)


@pytest.mark.parametrize("outcome", ["completed", "incomplete", "failed"])
def test_a_responses_stream_tells_usage_inside_its_last_event(outcome: str) -> None:
    """Whatever the outcome, the terminal event's figures count, and the null ones before do not."""
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
    }

    reported = read(
        {"type": "response.created", "response": {"id": "r", "usage": None}},
        {"type": f"response.{outcome}", "response": {"output": [], "usage": usage}},
    )

    assert reported == Reported(10, 5)


def test_running_totals_replace_each_other() -> None:
    """Chunks that each repeat the totals so far are not summed."""
    chunks = [
        {"choices": [{}], "usage": {"prompt_tokens": 10, "completion_tokens": i}} for i in range(6)
    ]

    assert read(*chunks) == Reported(10, 5)


@pytest.mark.parametrize(
    ("event", "reported"),
    [
        ({"choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]}, (10, 5)),
        ({"choices": [{"delta": {}, "usage": USAGE}], "usage": None}, (10, 5)),
        ({"choices": [{"delta": {}}], "x_groq": {"id": "req_1", "usage": USAGE}}, (10, 5)),
        (
            {"choices": [{"delta": {"content": "!"}, "finish_reason": "stop"}], "usage": USAGE},
            (10, 5),
        ),
        (
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 20,
                    "completion_tokens": 198,
                    "total_tokens": 623,
                    "completion_tokens_details": {"reasoning_tokens": 405},
                },
            },
            (20, 603),
        ),
        (
            {"usage": {**USAGE, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}},
            (10, 5),
        ),
        (
            {
                "type": "transcript.text.done",
                "text": "hi",
                "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 45},
            },
            (14, 45),
        ),
        (
            {
                "type": "image_generation.completed",
                "b64_json": "QUJD" * 9,
                "usage": {"input_tokens": 50, "output_tokens": 4_160, "total_tokens": 4_210},
            },
            (50, 4_160),
        ),
        ({"type": "response.in_progress", "response": {"usage": USAGE}}, (10, 5)),
        ({"choices": [{"usage": 7}, {"usage": None}, {}]}, (None, None)),
        ({"choices": {"usage": USAGE}}, (None, None)),
        ({"x_groq": [{"usage": USAGE}], "response": "usage"}, (None, None)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_usage_is_found_where_providers_put_it(event: Any, reported: tuple[Any, Any]) -> None:
    """On top, inside the response, beside a provider's name or in a choice, and nowhere else."""
    assert read(event) == Reported(*reported)


def test_an_event_is_counted_as_a_report_if_it_tells_an_output() -> None:
    """Null, unbelievable and prompt-only usages tell none; a repeated one does."""
    reader = OpenAIReader()
    for usage, reports in (
        (None, 0),
        ({"prompt_tokens": 10}, 0),
        ({"completion_tokens": -1}, 0),
        ({"completion_tokens": 5}, 1),
        ({"completion_tokens": 0}, 1),
        ({"completion_tokens": 5}, 2),
        ({"total_tokens": 15}, 3),
    ):
        reader.event(b"data: " + json.dumps({"usage": usage}).encode() + b"\n\n")
        assert reader.reports == reports


def test_a_member_named_response_may_be_text() -> None:
    """One provider calls its answer's text so; its usage is on top."""
    assert read({"response": "hello", "usage": USAGE}) == Reported(10, 5)


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b'{"id":"1","choices":[{}],"usage":null}', b'{"id":"1","choices":[{}]}'),
        (b'{"id": "1", "choices": [{}], "usage": null}', b'{"id": "1", "choices": [{}]}'),
        (b'{"choices":[{}] , "usage" : null }', b'{"choices":[{}]  }'),
        (b'{"id":"1","usage":null,"obfuscation":"x"}', b'{"id":"1","obfuscation":"x"}'),
        (b'{"usage":null,"id":"1"}', b'{"id":"1"}'),
        (b'{"usage": null, "id": "1"}', b'{"id": "1"}'),
        (b'{"usage":null}', b"{}"),
        (b'{"choices":[],"usage":null}', b'{"choices":[]}'),
        (
            b'{"x":{"a":1,"usage":null},"choices":[{}],"usage":null}',
            b'{"x":{"a":1,"usage":null},"choices":[{}]}',
        ),
        (
            b'{"choices":[{"delta":{"content":"\\",\\"usage\\":null"}}],"usage":null}',
            b'{"choices":[{"delta":{"content":"\\",\\"usage\\":null"}}]}',
        ),
        (
            b'{"choices":[{"delta":{"content":"usage"}}],"usage":null}',
            b'{"choices":[{"delta":{"content":"usage"}}]}',
        ),
    ],
)
def test_a_null_usage_is_taken_out_with_its_comma_alone(sent: bytes, seen: bytes) -> None:
    """The client gets the bytes that it would have got had nobody asked for usage."""
    for frame in (b"data: %s\n\n", b"data:%s\r\n\r\n", b"event: x\rdata: %s\rid: 1\r\r"):
        assert stripped(frame % sent) == frame % seen


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices":[{"usage":null}]}',
        b'{"choices":[{"delta":{"content":"\\"usage\\":null"}}]}',
        b'{"choices":[{"a":"usage"}]}',
        b'{"choices":[{"delta":{}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}',
        b'{"usage":{"prompt_tokens":10,"completion_tokens":5}}',
        b'{"choices":null,"usage":{"prompt_tokens":10}}',
        b'{"choices":[],"usage":7}',
        b'{"choices":[],"usage":nul}',
        b'"usage"',
        b'["usage"]',
        b'{"usage":',
        b"{" + b'"x":{"usage":null},' * 20 + b'"usage":null}',
    ],
)
def test_nothing_else_is_taken_out(data: bytes) -> None:
    """Deeper members, text that looks alike, content with usage, and broken events stay."""
    event = b"data: " + data + b"\n\n"

    assert stripped(event) == event


@pytest.mark.parametrize("choices", [b"[]", b"[ ]", b" [\t] "])
def test_the_extra_event_is_taken_out_whole(choices: bytes) -> None:
    """The event that exists only because we asked leaves no trace, and is read."""
    reader = OpenAIReader(strip=True)
    event = b'data: {"choices":%s,"usage":{"prompt_tokens":10,"completion_tokens":5}}\n\n' % choices

    assert reader.event(event) == b""
    assert reader.reported() == Reported(10, 5)


def test_a_client_that_asked_sees_everything() -> None:
    """Without injection the reader returns what it was given."""
    for data in (b'{"choices":[],"usage":{}}', b'{"choices":[{}],"usage":null}'):
        event = b"data: " + data + b"\n\n"
        assert OpenAIReader().event(event) is event

"""Tokens of real traffic: the month counts what the upstream reports, exactly, once, to the end."""

import json
from typing import Any

import pytest
from counters import Counters
from gateway_stack import Stack
from metered_answers import (
    ASKED,
    RESPONSES,
    UNASKED,
    as_openai_does,
    body,
    response,
    sse,
    streaming,
)
from raw_calls import CHAT, MESSAGES, PROMPT_TOKENS, call, chat, provision
from raw_upstream import RawUpstream

EMBEDDINGS = "/raw/v1/embeddings"
PLAIN = "/plain/v1/chat/completions"


OPTIONS: dict[str, dict[str, Any]] = {
    "absent": {},
    "false": {"stream_options": {"include_usage": False}},
    "true": {"stream_options": {"include_usage": True}},
    "null": {"stream_options": None},
    "other": {"stream_options": {"other": 1}},
}


@pytest.mark.parametrize("path", [CHAT, "/raw/v1/completions"])
@pytest.mark.parametrize("case", OPTIONS)
def test_a_stream_is_counted_and_looks_as_without_us(
    stack: Stack, raw: RawUpstream, case: str, path: str
) -> None:
    """Usage is asked for upstream and taken out again, unless the client has asked itself."""
    tenant = provision(stack)
    raw.script = as_openai_does
    answer = call(stack, tenant.agent, path, chat(stream=True, **OPTIONS[case]))
    assert answer.body == (ASKED if case == "true" else UNASKED)
    assert Counters(stack, tenant).settled(15)
    sent = json.loads(raw.requests[0].body)["stream_options"]
    assert sent == {**(OPTIONS[case].get("stream_options") or {}), "include_usage": True}


@pytest.mark.parametrize(
    ("path", "members"),
    [
        (CHAT, {}),
        (CHAT, {"stream": False}),
        (CHAT, {"stream": None}),
        (CHAT, {"stream": "true"}),
        (CHAT, {"stream": False, "stream_options": {"include_usage": False}}),
        (PLAIN, {"stream": True}),
        (RESPONSES, {"stream": True}),
        (EMBEDDINGS, {"stream": True}),
        (MESSAGES, {"stream": True}),
    ],
)
def test_usage_is_asked_for_nowhere_else(
    stack: Stack, raw: RawUpstream, path: str, members: dict[str, Any]
) -> None:
    """A body that is no stream of chat or completions is sent byte for byte, as is a plain one."""
    tenant = provision(stack)
    body = chat(**members)
    call(stack, tenant.agent, path, body)
    assert [received.body for received in raw.requests] == [body]


def test_a_refusal_of_the_question_is_relayed(stack: Stack, raw: RawUpstream) -> None:
    """An upstream that does not know `stream_options` is not asked twice, and costs one request."""
    tenant = provision(stack)
    refusal = b'{"error":{"message":"unknown parameter: stream_options"}}'
    raw.script = lambda peer: peer.json(refusal, b"400 Bad Request")
    answer = call(stack, tenant.agent, CHAT, chat(stream=True))
    assert (answer.status, answer.body) == (400, refusal)
    counters = Counters(stack, tenant)
    assert counters.settled(0)
    assert (counters.requests(tenant.agent), len(raw.requests)) == (1, 1)


def messages(start: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"type": "message", "usage": start}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}},
        *({"type": "message_delta", "delta": {}, "usage": usage} for usage in deltas),
        {"type": "message_stop"},
    ]
    return sse(*events, names=[event["type"] for event in events])


START = {"input_tokens": 25, "output_tokens": 1}
ANTHROPIC: dict[str, tuple[bytes, int]] = {
    "plain": (messages(START, {"output_tokens": 15}), 40),
    "repeated input": (messages(START, {"input_tokens": 25, "output_tokens": 15}), 40),
    "running totals": (messages(START, {"output_tokens": 5}, {"output_tokens": 15}), 40),
    "input grows": (messages(START, {"input_tokens": 300, "output_tokens": 15}), 315),
    "input 0": (messages(START, {"input_tokens": 0, "output_tokens": 15}), 40),
    "input null": (messages(START, {"input_tokens": None, "output_tokens": 15}), 40),
}


@pytest.mark.parametrize("case", ANTHROPIC)
def test_an_anthropic_stream_is_counted_once(stack: Stack, raw: RawUpstream, case: str) -> None:
    """Of each figure the latest counts, and the client sees every byte."""
    tenant = provision(stack)
    stream, tokens = ANTHROPIC[case]
    raw.script = streaming(stream)
    answer = call(stack, tenant.agent, MESSAGES, chat(stream=True, max_tokens=100))
    assert answer.body == stream
    assert Counters(stack, tenant).settled(tokens)


CACHED = {"prompt_tokens": 10_000, "completion_tokens": 10}
DOCUMENTS: dict[str, tuple[str, bytes, int]] = {
    "cached, openai": (
        CHAT,
        body({**CACHED, "prompt_tokens_details": {"cached_tokens": 9000}}),
        10_010,
    ),
    "cached, anthropic": (
        MESSAGES,
        body(
            {
                "input_tokens": 7,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 9993,
                "output_tokens": 10,
            }
        ),
        10_010,
    ),
    "cache writes, anthropic": (
        MESSAGES,
        body(
            {
                "input_tokens": 7,
                "cache_creation_input_tokens": 30,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 10,
                    "ephemeral_1h_input_tokens": 20,
                },
                "output_tokens": 10,
                "server_tool_use": {"web_search_requests": 3},
            }
        ),
        47,
    ),
    "compacted, anthropic": (
        MESSAGES,
        body(
            {
                "input_tokens": 20,
                "output_tokens": 5,
                "iterations": [
                    {"type": "compaction", "input_tokens": 180, "output_tokens": 35},
                    {"type": "message", "input_tokens": 20, "output_tokens": 5},
                ],
            }
        ),
        240,
    ),
    "reasoning apart": (
        CHAT,
        body({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623}),
        623,
    ),
    "absurd": (
        CHAT,
        body({"prompt_tokens": -1, "completion_tokens": 1e300, "total_tokens": 15}),
        15,
    ),
    **{
        f"responses, {status}": (RESPONSES, json.dumps(response(status)).encode(), 15)
        for status in ("completed", "incomplete", "failed")
    },
    "background": (
        RESPONSES,
        b'{"status":"queued","background":true,"output":[],"usage":null}',
        PROMPT_TOKENS,
    ),
    "embeddings": (EMBEDDINGS, body({"prompt_tokens": 8, "total_tokens": 8}), 8),
    "images": (
        "/raw/v1/images/generations",
        body({"input_tokens": 50, "output_tokens": 50, "total_tokens": 100}),
        100,
    ),
    "counted tokens": ("/claude/v1/messages/count_tokens", b'{"input_tokens": 2095}', 0),
    "audio": ("/raw/v1/audio/transcriptions", b'{"text": "hi"}', 0),
    "audio by tokens": (
        "/raw/v1/audio/transcriptions",
        body({"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59}),
        59,
    ),
    "audio by seconds": (
        "/raw/v1/audio/translations",
        body({"type": "duration", "seconds": 9}, text="hi"),
        0,
    ),
    "moderation": ("/raw/v1/moderations", b'{"id":"modr-1","results":[{"flagged":false}]}', 0),
    "batch": ("/claude/v1/messages/batches", b'{"id":"msgbatch_1","request_counts":{}}', 0),
}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_a_document_is_counted_as_reported(stack: Stack, raw: RawUpstream, case: str) -> None:
    """Cached and reasoning tokens are parts, not extras; what tells no usage of its own is free."""
    tenant = provision(stack)
    path, document, tokens = DOCUMENTS[case]
    raw.script = lambda peer: peer.json(document)
    answer = call(stack, tenant.agent, path, chat())
    assert answer.body == document
    counters = Counters(stack, tenant)
    assert counters.settled(tokens)
    assert counters.requests(tenant.agent) == 1


def test_reading_again_costs_no_tokens(stack: Stack, raw: RawUpstream) -> None:
    """A GET of a stored answer repeats its usage: one request, and nothing more."""
    tenant = provision(stack)
    raw.script = lambda peer: peer.json(json.dumps(response("completed")).encode())
    assert call(stack, tenant.agent, f"{RESPONSES}/resp_1").status == 200
    assert call(stack, tenant.agent, "/raw/v1/models").status == 200
    counters = Counters(stack, tenant)
    assert counters.settled(0)
    assert counters.requests(tenant.agent) == 2


def test_the_ceiling_counts_what_was_used_not_what_was_held(stack: Stack, raw: RawUpstream) -> None:
    """A generous maximum is held while the request runs and given back: the next one passes."""
    tenant = provision(stack, tokens=100)
    for used in (7, 14):
        assert call(stack, tenant.agent, CHAT, chat(max_tokens=80)).status == 200
        assert Counters(stack, tenant).settled(used)
    assert call(stack, tenant.agent, CHAT, chat(max_tokens=95)).status == 429
    assert len(raw.requests) == 2

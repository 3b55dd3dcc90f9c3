"""The providers' own SDKs, unchanged: answers parse, and usage is counted as they were told it."""

from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import provision
from raw_upstream import RawUpstream
from sdks import CLAUDE, MESSAGES, MODEL, anthropic_at, chat, messages, openai_at

# Each asks once, and returns the tokens that the provider has reported to the client itself.


def chat_stream(client: openai.OpenAI) -> int:
    options: Any = {"include_usage": True}
    with client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options=options
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    return usage.total_tokens


def responses(client: openai.OpenAI) -> int:
    answer = client.responses.create(model=MODEL, input="Tell me a story about an ibex.")
    assert answer.output_text
    assert answer.usage
    return answer.usage.total_tokens


def responses_stream(client: openai.OpenAI) -> int:
    with client.responses.create(model=MODEL, input="Tell me a story.", stream=True) as stream:
        events = list(stream)
    assert any(event.type == "response.output_text.delta" for event in events)
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.usage
    return last.response.usage.total_tokens


def embeddings(client: openai.OpenAI) -> int:
    answer = client.embeddings.create(model="text-embedding-3-small", input=["an ibex", "a goat"])
    assert len(answer.data) == 2
    return answer.usage.total_tokens


def models(client: openai.OpenAI) -> int:
    assert client.models.list().data
    return 0


def messages_stream(client: anthropic.Anthropic) -> int:
    with client.messages.stream(model=CLAUDE, max_tokens=200, messages=MESSAGES) as stream:
        assert "".join(stream.text_stream)
        usage = stream.get_final_message().usage
    return usage.input_tokens + usage.output_tokens


def claude_models(client: anthropic.Anthropic) -> int:
    assert client.models.list().data
    return 0


OPENAI_CALLS = [chat, chat_stream, responses, responses_stream, embeddings, models]
ANTHROPIC_CALLS = [messages, messages_stream, claude_models]


@pytest.mark.parametrize("ask", OPENAI_CALLS)
def test_openais_sdk_works_unchanged(stack: Stack, ask: Callable[[openai.OpenAI], int]) -> None:
    """Only the base URL and the key differ; the month counts just what the SDK was told."""
    tenant = provision(stack)
    with openai_at(stack, tenant.agent) as client:
        assert Counters(stack, tenant).settled(ask(client) + ask(client))


@pytest.mark.parametrize("ask", ANTHROPIC_CALLS)
def test_anthropics_sdk_works_unchanged(
    stack: Stack, ask: Callable[[anthropic.Anthropic], int]
) -> None:
    """Only the base URL and the key differ; the month counts just what the SDK was told."""
    tenant = provision(stack)
    with anthropic_at(stack, tenant.agent) as client:
        assert Counters(stack, tenant).settled(ask(client) + ask(client))


def test_a_stream_that_did_not_ask_is_counted_as_one_that_did(stack: Stack) -> None:
    """The SDK sees no usage, and the month counts what the same prompt costs without a stream."""
    tenant = provision(stack)
    with openai_at(stack, tenant.agent) as client:
        before = chat(client)
        with client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True) as stream:
            chunks = list(stream)
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    assert Counters(stack, tenant).settled(2 * before)


def test_legacy_completions_are_counted(stack: Stack, raw: RawUpstream) -> None:
    """The SDK still has them, and some providers too."""
    tenant = provision(stack)
    with openai_at(stack, tenant.agent, "raw") as client:
        answer = client.completions.create(model="m", prompt="hi")
    assert answer.usage
    assert raw.requests[0].target == b"/base/v1/completions"
    assert Counters(stack, tenant).settled(7)


async def test_the_async_sdks_work_unchanged(stack: Stack) -> None:
    """Chat and messages, in whole and as streams, on the asynchronous clients."""
    tenant = provision(stack)
    key = tenant.agent.key
    total = 0
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/openai/v1", api_key=key) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES)
        assert answer.usage
        total += answer.usage.total_tokens
        async with await client.chat.completions.create(
            model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        ) as stream:
            total += sum([chunk.usage.total_tokens async for chunk in stream if chunk.usage])
    async with anthropic.AsyncAnthropic(base_url=f"{stack.url}/anthropic", api_key=key) as claude:
        whole = await claude.messages.create(model=CLAUDE, max_tokens=200, messages=MESSAGES)
        total += whole.usage.input_tokens + whole.usage.output_tokens
        async with claude.messages.stream(
            model=CLAUDE, max_tokens=200, messages=MESSAGES
        ) as events:
            usage = (await events.get_final_message()).usage
        total += usage.input_tokens + usage.output_tokens
    assert Counters(stack, tenant).settled(total)
    assert Counters(stack, tenant).requests(tenant.agent) == 4

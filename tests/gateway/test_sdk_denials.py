"""Denials and failures as the providers' own SDKs raise them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
import pytest
from gateway_stack import Agent, Stack, StartGateway, Tenant
from raw_calls import obeys, provision
from sdks import CLAUDE, MESSAGES, MODEL, anthropic_at, chat, messages, openai_at
from servers import RedisServer, eventually


@dataclass
class Watched:
    """Both SDKs, whose requests are counted and whose sleeping is recorded instead of slept."""

    asks: list[tuple[Callable[[], int], type[Exception]]] = field(default_factory=list)
    """How each asks, and its own error for a rate limit."""
    requests: int = 0
    slept: list[float] = field(default_factory=list)

    def see(self, _request: object) -> None:
        self.requests += 1


@contextmanager
def watched(stack: Stack, tenant: Tenant, **options: Any) -> Iterator[Watched]:
    seen = Watched()
    hooks: Any = {"event_hooks": {"request": [seen.see]}}
    one = openai.DefaultHttpxClient(**hooks)
    other = anthropic.DefaultHttpxClient(**hooks)
    with (
        pytest.MonkeyPatch.context() as patch,
        openai_at(stack, tenant.agent, http_client=one, **options) as gpt,
        anthropic_at(stack, tenant.agent, http_client=other, **options) as claude,
    ):
        patch.setattr(time, "sleep", seen.slept.append)
        seen.asks = [
            (lambda: chat(gpt), openai.RateLimitError),
            (lambda: messages(claude), anthropic.RateLimitError),
        ]
        yield seen


LEVELS: dict[str, dict[str, int]] = {"agent": {"agent_rpm": 1}, "org": {"org_rpm": 1}}


@pytest.mark.parametrize("level", LEVELS)
def test_a_rate_denial_raises_the_sdks_own_error(stack: Stack, level: str) -> None:
    """With its message, type and code, and with the headers that say who denied and until when."""
    tenant = provision(stack, **LEVELS[level])
    with watched(stack, tenant, max_retries=0) as sdks:
        sdks.asks[0][0]()
        for ask, error_type in sdks.asks:
            with pytest.raises(error_type) as caught:
                ask()
            check(caught.value, level)
    assert sdks.requests == 3
    assert sdks.slept == []


def check(error: Any, level: str) -> None:
    """What a client can read from a denial."""
    assert error.status_code == 429
    assert error.response.headers["ibex-denied-by"] == level
    assert "requests per minute is reached: 1 in the last 60 s" in str(error)
    assert 1 <= int(error.response.headers["retry-after"]) <= 61
    if isinstance(error, openai.RateLimitError):
        assert (error.type, error.code) == ("requests", "rate_limit_exceeded")
        assert error.request_id == error.response.headers["x-request-id"]
    else:
        assert error.body["error"]["type"] == "rate_limit_error"
        assert error.request_id == error.response.headers["request-id"]


def test_the_platforms_denial_raises_the_sdks_own_error(
    start_gateway: StartGateway, redis_server: RedisServer
) -> None:
    """The third level of requests, on a gateway whose platform has a limit."""
    stack = start_gateway(redis_server, GLOBAL_RPM="1", LIMITER_DEADLINE_MS="5000")
    tenant = stack.tenants.create(agent_rpm=5)
    assert eventually(lambda: obeys(stack, tenant.agent, {"agent": 5}))
    with watched(stack, tenant, max_retries=0) as sdks:
        sdks.asks[0][0]()
        for ask, error_type in sdks.asks:
            with pytest.raises(error_type) as caught:
                ask()
            check(caught.value, "global")


def test_the_ceiling_is_raised_at_once(stack: Stack) -> None:
    """Default retries: one request each, no sleep, and an error that says that quota is used up."""
    tenant = provision(stack, tokens=1)
    with watched(stack, tenant) as sdks:
        for ask, error_type in sdks.asks:
            with pytest.raises(error_type, match="ceiling of 1 tokens per month") as caught:
                ask()
            error: Any = caught.value
            assert error.response.headers["ibex-denied-by"] == "tokens"
            if isinstance(error, openai.RateLimitError):
                assert error.type == "insufficient_quota"
                assert error.code == "organization_usage_limit_exceeded"
    assert sdks.requests == 2
    assert sdks.slept == []


async def test_the_async_sdks_raise_their_own_errors(stack: Stack) -> None:
    """The asynchronous clients read a denial as the others do."""
    tenant = provision(stack, agent_rpm=0)
    key = tenant.agent.key
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/openai/v1", api_key=key) as gpt:
        with pytest.raises(openai.RateLimitError) as caught:
            await gpt.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert (caught.value.type, caught.value.code) == ("requests", "rate_limit_exceeded")
    async with anthropic.AsyncAnthropic(base_url=f"{stack.url}/anthropic", api_key=key) as claude:
        with pytest.raises(anthropic.RateLimitError, match="limit of 0 requests per minute"):
            await claude.messages.create(model=CLAUDE, max_tokens=200, messages=MESSAGES)


def test_the_sdks_wait_as_long_as_they_are_told(stack: Stack) -> None:
    """Default retries: each sleeps until the request would pass, to the millisecond."""
    tenant = provision(stack, agent_rpm=1)
    with watched(stack, tenant) as sdks:
        sdks.asks[0][0]()
        for ask, error_type in sdks.asks:
            sdks.slept.clear()
            with pytest.raises(error_type) as caught:
                ask()
            error: Any = caught.value
            told = int(error.response.headers["retry-after-ms"]) / 1000
            assert len(sdks.slept) == 2
            assert all(told <= slept < told + 2 for slept in sdks.slept)
    assert sdks.requests == 1 + 2 * 3


def test_a_bad_key_raises_the_sdks_own_error(stack: Stack) -> None:
    """AuthenticationError, with a message that says which key is wanted."""
    nobody = Agent("nobody", "sk-not-ours")
    with openai_at(stack, nobody) as client, pytest.raises(openai.AuthenticationError) as caught:
        chat(client)
    assert caught.value.code == "invalid_api_key"
    assert "ibex_agt_" in str(caught.value)
    with (
        anthropic_at(stack, nobody) as claude,
        pytest.raises(anthropic.AuthenticationError, match="ibex_agt_"),
    ):
        messages(claude)

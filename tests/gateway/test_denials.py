"""Denials as a client gets them: true numbers, its provider's shape, no trace of the request."""

import time
from datetime import datetime

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway, Tenant
from raw_calls import CHAT, FILES, MESSAGES, PROMPT_TOKENS, call, chat, fields, obeys, provision
from raw_client import Answer, RawClient, request
from raw_upstream import RawUpstream
from servers import RedisServer, eventually


def deny(stack: Stack, tenant: Tenant, path: str, admitted: int) -> Answer:
    """The first denial, after just so many admissions, which leaves every counter as it was."""
    for _ in range(admitted):
        assert call(stack, tenant.agent, path, chat()).status == 200
    counters = Counters(stack, tenant)
    assert eventually(lambda: counters.open() == 0)
    before = counters.everything()
    answer = call(stack, tenant.agent, path, chat())
    assert answer.status == 429
    assert counters.everything() == before
    return answer


def error_of(answer: Answer, path: str) -> dict[str, str | None]:
    """The error, after a look at the whole body's shape and its request id."""
    body = answer.json()
    assert answer.get("content-type") == "application/json"
    if path == MESSAGES:
        assert set(body) == {"type", "error", "request_id"}
        assert body["type"] == "error"
        assert body["request_id"] == answer.get("request-id")
        assert set(body["error"]) == {"type", "message"}
    else:
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert (answer.get("x-request-id") or "").startswith("req_")
    return dict(body["error"])


@pytest.mark.parametrize("path", [CHAT, MESSAGES, FILES])
@pytest.mark.parametrize(
    ("limits", "level", "whose"),
    [
        ({"agent_rpm": 2, "org_rpm": 9}, "agent", "The agent's limit of 2 requests per minute"),
        ({"org_rpm": 2}, "org", "The organization's limit of 2 requests per minute"),
        ({"agent_rpm": 2, "org_rpm": 2}, "agent", "The agent's limit of 2 requests per minute"),
    ],
)
def test_a_rate_denial_says_whose_limit_it_was_and_when_it_passes(
    stack: Stack, raw: RawUpstream, limits: dict[str, int], level: str, whose: str, path: str
) -> None:
    """The level, the limit, what was used, and the true time, in the family's words."""
    tenant = provision(stack, **limits)
    answer = deny(stack, tenant, path, admitted=2)
    assert len(raw.requests) == 2
    assert answer.get("ibex-denied-by") == level
    error = error_of(answer, path)
    message = error.pop("message") or ""
    assert message.startswith(f"{whose} is reached: 2 in the last 60 s.")
    assert error == (
        {"type": "rate_limit_error"}
        if path == MESSAGES
        else {"type": "requests", "param": None, "code": "rate_limit_exceeded"}
    )
    assert answer.get("x-should-retry") is None
    wait_ms = int(answer.get("retry-after-ms") or 0)
    assert f"would pass in {wait_ms / 1000:.3f} s" in message
    assert int(answer.get("retry-after") or 0) == max(1, -(-wait_ms // 1000))
    assert 55_000 < wait_ms <= 61_000


def test_the_time_told_is_that_of_the_limits_and_of_redis(stack: Stack, raw: RawUpstream) -> None:
    """Retry-After, `GET /limits` and the ring agree on when the window is empty again."""
    tenant = provision(stack, agent_rpm=1)
    answer = deny(stack, tenant, CHAT, admitted=1)
    passes_at = time.time() + int(answer.get("retry-after-ms") or 0) / 1000
    told = stack.gateway.get("/limits", tenant.agent.bearer)[1]["agent"]
    assert told["remaining"] == 0
    assert abs(datetime.fromisoformat(told["resets_at"]).timestamp() - passes_at) < 0.5
    assert Counters(stack, tenant).requests(tenant.agent) == told["used"] == 1
    assert len(raw.requests) == 1


def test_a_request_passes_at_the_time_told(stack: Stack, raw: RawUpstream) -> None:
    """Denied until the oldest request has left the window, which is aged here to be quick."""
    tenant = provision(stack, agent_rpm=1)
    answer = deny(stack, tenant, CHAT, admitted=1)
    counters = Counters(stack, tenant)
    wait_s = int(answer.get("retry-after") or 0)
    counters.age(tenant.agent, wait_s - 2)
    sooner = call(stack, tenant.agent, CHAT, chat())
    assert sooner.status == 429
    time.sleep(int(sooner.get("retry-after-ms") or 0) / 1000)
    assert call(stack, tenant.agent, CHAT, chat()).status == 200
    assert len(raw.requests) == 2


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_token_denial_tells_what_is_used_held_and_needed(
    stack: Stack, raw: RawUpstream, path: str
) -> None:
    """The month's ceiling: insufficient quota for OpenAI, no time to wait for, no retry."""
    tenant = provision(stack, tokens=PROMPT_TOKENS + 5)
    if path == MESSAGES:
        raw.script = lambda peer: peer.json(b'{"usage":{"input_tokens":3,"output_tokens":4}}')
    answer = deny(stack, tenant, path, admitted=1)
    assert len(raw.requests) == 1
    assert answer.get("ibex-denied-by") == "tokens"
    error = error_of(answer, path)
    message = error.pop("message") or ""
    assert message.startswith(
        f"The organization's ceiling of {PROMPT_TOKENS + 5} tokens per month leaves no room: "
        f"7 used, 0 held by open requests, {PROMPT_TOKENS} needed by this one. It resets at "
    )
    assert message.endswith("-01T00:00:00Z.")
    assert error == (
        {"type": "rate_limit_error"}
        if path == MESSAGES
        else {
            "type": "insufficient_quota",
            "param": None,
            "code": "organization_usage_limit_exceeded",
        }
    )
    assert answer.get("x-should-retry") == "false"
    assert answer.get("retry-after") is None
    assert answer.get("retry-after-ms") is None


@pytest.mark.parametrize("limits", [{"agent_rpm": 0}, {"org_rpm": 0}, {"tokens": 0}])
def test_a_limit_of_0_admits_nothing_and_promises_nothing(
    stack: Stack, raw: RawUpstream, limits: dict[str, int]
) -> None:
    """The first request is denied; no wait would help, so none is told."""
    tenant = provision(stack, **limits)
    answer = deny(stack, tenant, CHAT, admitted=0)
    assert answer.get("ibex-denied-by") == next(iter(limits)).removesuffix("_rpm")
    assert answer.get("retry-after") is None
    assert answer.get("x-should-retry") == "false"
    assert Counters(stack, tenant).everything() == {}
    assert raw.requests == []


def test_a_ceiling_of_0_denies_also_what_needs_no_tokens(stack: Stack, raw: RawUpstream) -> None:
    """Nothing passes means nothing: also a request that is not metered."""
    tenant = provision(stack, tokens=0)
    assert call(stack, tenant.agent, "/raw/v1/models").status == 429
    assert raw.requests == []


@pytest.mark.parametrize("level", ["org", "tokens"])
def test_a_denial_above_costs_the_agent_nothing(stack: Stack, raw: RawUpstream, level: str) -> None:
    """What one agent has used up is denied to the other, whose own window stays empty."""
    limits = {"org_rpm": 1} if level == "org" else {"tokens": PROMPT_TOKENS + 2}
    tenant = provision(stack, agents=2, agent_rpm=10, **limits)
    first, second = tenant.agents
    assert call(stack, first, CHAT, chat()).status == 200
    counters = Counters(stack, tenant)
    assert counters.settled(7)
    for _ in range(3):
        answer = call(stack, second, CHAT, chat())
        assert (answer.status, answer.get("ibex-denied-by")) == (429, level)
    assert (counters.requests(first), counters.requests(second), counters.requests()) == (1, 0, 1)
    assert counters.settled(7)
    assert len(raw.requests) == 1


def test_a_denial_does_not_wait_for_the_body(stack: Stack, raw: RawUpstream) -> None:
    """An upload is denied while it is still to come; sent all the same, it disturbs nothing."""
    tenant = provision(stack, agent_rpm=0)
    head = request("POST", FILES, [*fields(tenant.agent), ("Content-Length", "1000000")])
    with RawClient(stack.gateway.port) as client:
        for _ in range(2):
            client.send(head)
            assert client.answer().status == 429
            client.send(b"x" * 1_000_000)
    assert raw.requests == []


def test_the_platforms_limit_denies_and_tells_only_then(
    start_gateway: StartGateway, redis_server: RedisServer, raw: RawUpstream
) -> None:
    """`global` denies two organizations together; while it admits, its figures are not told."""
    stack = start_gateway(redis_server, GLOBAL_RPM="2", LIMITER_DEADLINE_MS="5000")
    tenants = [stack.tenants.create(agent_rpm=10) for _ in range(3)]
    for tenant in tenants:
        assert eventually(lambda tenant=tenant: obeys(stack, tenant.agent, {"agent": 10}))  # type: ignore[misc]
    for tenant in tenants[:2]:
        admitted = call(stack, tenant.agent, CHAT, chat())
        assert admitted.status == 200
        assert "global" not in repr(admitted.headers)
    answer = call(stack, tenants[2].agent, CHAT, chat())
    assert (answer.status, answer.get("ibex-denied-by")) == (429, "global")
    assert '"global";q=2;w=60' in (answer.get("ratelimit-policy") or "")
    assert error_of(answer, CHAT)["type"] == "requests"
    assert int(answer.get("retry-after") or 0) >= 1
    assert Counters(stack, tenants[2]).everything() == {}
    assert len(raw.requests) == 2

"""What the gateway says of limits and of itself, compared to what it decides by."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from counters import Counters
from gateway_stack import Agent, Stack, StartGateway
from raw_calls import provision
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, StartRedis, eventually
from traffic import HELD, USED, Answer, chat, chats, command, traffic

from gateway.rate_headers import month_end

pytestmark = pytest.mark.usefixtures("raw")


def limits(stack: Stack, agent: Agent) -> dict[str, Any]:
    """GET /limits, which must succeed."""
    status, body = stack.gateway.get("/limits", agent.bearer)
    assert status == 200
    assert isinstance(body, dict)
    return body


def remaining(answer: Answer) -> dict[str, int]:
    """What the RateLimit field of an answer says is left, by level."""
    items = (item.split(";") for item in answer.headers["ratelimit"].split(", "))
    return {label.strip('"'): int(left.removeprefix("r=")) for label, left, _ in items}


def test_limits_are_those_that_decided(stack: Stack) -> None:
    """After every answer: used and remaining are the answer's own, and those in Redis."""
    tenant = provision(stack, org_rpm=7, agent_rpm=4, tokens=100_000, agents=2)
    first, second = tenant.agents
    counters = Counters(stack, tenant)
    for number, agent in enumerate([first, second, first, first, second, first], 1):
        answer = chat(stack, agent)
        assert answer.status == 200
        assert counters.settled(number * USED)

        told = limits(stack, agent)

        assert remaining(answer)["agent"] == told["agent"]["remaining"]
        assert remaining(answer)["org"] == told["org"]["remaining"] == 7 - number
        assert told["agent"]["used"] == counters.requests(agent)
        assert told["org"]["used"] == counters.requests() == number
        assert told["tokens"]["used"] == number * USED
        assert told["tokens"]["held"] == 0
        assert told["tokens"]["remaining"] == 100_000 - number * USED
    before = limits(stack, first)
    assert before["agent"]["remaining"] == 0

    denied = chat(stack, first)

    assert (denied.status, denied.headers["ibex-denied-by"]) == (429, "agent")
    after = limits(stack, first)
    for level in ("agent", "org", "tokens"):
        assert after[level] | {"resets_at": ""} == before[level] | {"resets_at": ""}


async def test_limits_never_contradict_traffic_that_runs(stack: Stack) -> None:
    """In every reading used and remaining add up; at the end they are what was admitted."""
    tenant = await asyncio.to_thread(provision, stack, org_rpm=40, tokens=100_000)
    readings: list[dict[str, Any]] = []
    async with traffic(stack, tenant.agent) as seen:
        while sum(answer.status == 429 for answer in seen.answers) < 20:
            readings.append(await asyncio.to_thread(limits, stack, tenant.agent))

    assert seen.failures == []
    assert sum(answer.status == 200 for answer in seen.answers) == 40
    assert Counters(stack, tenant).settled(40 * USED)
    readings.append(await asyncio.to_thread(limits, stack, tenant.agent))
    used = [told["org"]["used"] for told in readings]
    assert used == sorted(used)
    assert len(set(used)) > 3
    for told in readings:
        assert told["org"]["used"] + told["org"]["remaining"] == 40
        tokens = told["tokens"]
        assert tokens["used"] + tokens["held"] + tokens["remaining"] == 100_000
    assert readings[-1]["org"]["used"] == 40
    assert readings[-1]["tokens"]["used"] == 40 * USED


def test_open_requests_are_told_as_held(stack: Stack, raw: RawUpstream) -> None:
    """While the upstream thinks, its tokens are held and not yet used."""
    tenant = provision(stack, tokens=100_000)
    told: list[dict[str, Any]] = []

    def think(peer: Peer) -> None:
        told.append(limits(stack, tenant.agent))
        peer.json()

    raw.script = think
    assert chat(stack, tenant.agent).status == 200

    (tokens,) = [body["tokens"] for body in told]
    assert tokens["used"] == 0
    assert tokens["held"] >= HELD
    assert tokens["remaining"] == 100_000 - tokens["held"]


def test_no_limit_is_null(stack: Stack) -> None:
    """What is used is told all the same."""
    tenant = provision(stack)
    assert chat(stack, tenant.agent).status == 200
    assert Counters(stack, tenant).settled(USED)

    told = limits(stack, tenant.agent)

    assert (told["organization_id"], told["agent_id"]) == (tenant.id, tenant.agent.id)
    assert told["limiter"] == "deciding"
    for level in ("agent", "org"):
        assert told[level]["limit"] is told[level]["remaining"] is None
        assert told[level]["used"] == 1
    assert told["tokens"]["limit"] is told["tokens"]["remaining"] is None
    assert told["tokens"]["used"] == USED


def test_a_limit_of_nothing_and_one_that_was_lowered_leave_nothing(stack: Stack) -> None:
    """Remaining is never below zero."""
    tenant = provision(stack, org_rpm=5)
    for _ in range(3):
        assert chat(stack, tenant.agent).status == 200
    assert Counters(stack, tenant).settled(3 * USED)

    stack.tenants.limit(tenant, rpm=2, tokens=0)

    assert eventually(lambda: limits(stack, tenant.agent)["tokens"]["limit"] == 0)
    told = limits(stack, tenant.agent)
    assert (told["org"]["used"], told["org"]["remaining"]) == (3, 0)
    assert (told["tokens"]["used"], told["tokens"]["remaining"]) == (3 * USED, 0)


def test_resets_are_the_moments_at_which_all_is_free_again(stack: Stack) -> None:
    """The window's within 61 s of the last request, the month's at its end, both in UTC."""
    tenant = provision(stack, org_rpm=5, tokens=100_000)
    idle = limits(stack, tenant.agent)
    sent = time.time()
    assert chat(stack, tenant.agent).status == 200

    told = limits(stack, tenant.agent)

    now = time.time()
    assert datetime.fromisoformat(idle["org"]["resets_at"]).timestamp() == pytest.approx(now, abs=5)
    resets_at = datetime.fromisoformat(told["org"]["resets_at"])
    assert resets_at.utcoffset() == datetime.now(UTC).utcoffset()
    assert sent + 59 < resets_at.timestamp() < now + 62
    month = datetime.fromisoformat(told["tokens"]["resets_at"])
    assert month == month_end(int(now * 1000))


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer ibex_agt_nonsense"}])
def test_limits_are_told_to_agents_only(stack: Stack, headers: dict[str, str]) -> None:
    """Without a valid key there is nothing to see, in the shape that SDKs know."""
    status, body = stack.gateway.get("/limits", headers)

    assert status == 401
    assert body["error"]["code"] == "invalid_api_key"


def test_health_says_that_it_answers(stack: Stack) -> None:
    """The same, whatever the state of the servers behind it."""
    assert stack.gateway.get("/healthz") == (200, {"status": "ok"})


def test_readiness_tells_what_is_known_and_decided(stack: Stack) -> None:
    """Only a key is missing, and the tenant's key is among those that are known."""
    before = stack.gateway.readyz()
    tenant = provision(stack, agents=3)

    told = stack.gateway.readyz()

    assert told["upstreams"] == {"unkeyed": ["unkeyed"]}
    assert told["status"] == "degraded"
    assert told["postgres"] == {"state": "ok"}
    assert told["ledger"]["state"] == "current"
    assert told["limiter"] | {"unsettled": 0} == {
        "state": "deciding",
        "admitted_open": 0,
        "broken": 0,
        "unsettled": 0,
        "settlements_lost": 0,
        "tokens_estimated": before["limiter"]["tokens_estimated"],
    }
    assert (told["config"]["state"], told["config"]["changes_heard"]) == ("current", True)
    assert told["config"]["version"] > before["config"]["version"]
    assert told["config"]["age_s"] >= 0
    assert told["config"]["keys"] == before["config"]["keys"] + len(tenant.agents)
    assert told["config"]["organizations"] == before["config"]["organizations"] + 1


async def test_readiness_counts_open_requests(stack: Stack, raw: RawUpstream) -> None:
    """As many as are with the upstream."""
    tenant = await asyncio.to_thread(provision, stack)
    counts: list[int] = []

    def script(peer: Peer) -> None:
        if eventually(lambda: len(raw.requests) == 5):
            counts.append(stack.gateway.readyz()["open_requests"])
        time.sleep(0.2)
        peer.json()

    raw.script = script
    await chats(stack, tenant.agent, 5)

    assert max(counts) == 5
    assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 0)


def test_without_redis_limits_are_known_and_numbers_are_not(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Unknown is null and never 0; who may ask is still checked, and it is said to be open."""
    server: RedisServer = start_redis()
    stack = start_gateway(server)
    tenant = provision(stack, org_rpm=5, tokens=100)
    server.stop()

    told = limits(stack, tenant.agent)

    assert told["limiter"] == "open"
    for level, limit in (("agent", None), ("org", 5), ("tokens", 100)):
        assert told[level]["limit"] == limit
        assert told[level]["used"] is told[level]["remaining"] is told[level]["resets_at"] is None
    assert stack.gateway.get("/limits")[0] == 401
    assert stack.gateway.get("/healthz") == (200, {"status": "ok"})


def test_damaged_counters_are_told_as_unknown_or_empty(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """Keys of a foreign type or with foreign content never end in an error."""
    stack = start_gateway(redis_server)
    tenant = provision(stack, org_rpm=5, tokens=100)
    month = f"{datetime.now(UTC):%Y-%m}"
    for words in (
        ("SET", f"ratelimit:{tenant.id}:minute", "foreign"),
        ("SET", f"ratelimit:{tenant.id}:month_tokens", "foreign"),
        ("HSET", f"ratelimit:{tenant.id}:month_tokens", month, "foreign"),
        ("HSET", f"ratelimit:{tenant.id}:minute", "seconds", "foreign"),
    ):
        command(stack.redis, "DEL", words[1])
        command(stack.redis, *words)

        told = limits(stack, tenant.agent)

        assert told["org"]["limit"] == 5
        assert told["org"]["used"] in (None, 0)

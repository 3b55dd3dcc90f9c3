"""The numbers that operators are shown are those by which the limiter decides."""

import pytest
import redis
from running import Look, Running, subject
from script_calls import ORG, Ask, Scripts

from lua.connection import RedisAddress, connect
from lua.errors import LimiterUnavailableError
from lua.usage import Live, LiveNumbers

OTHER = "22222222-2222-4222-8222-222222222222"


async def live(url: str, *targets: tuple[str, str | None]) -> list[Live]:
    client = connect(RedisAddress(url), timeout_s=2)
    try:
        return await LiveNumbers(client).of(targets)
    finally:
        await client.aclose()


async def test_numbers_are_those_of_the_next_decision(redis_url: str, healthy: Running) -> None:
    """Requests at each level, tokens used and held, requests in flight, as the limiter has them."""
    limiter = healthy.limiter
    for org, agent, settled in (
        (ORG, "a1", 10), (ORG, "a1", None), (ORG, "a2", None), (OTHER, "b1", 3)
    ):  # fmt: skip
        decision = await limiter.admit(subject(org, agent), 5, 2)
        if settled is not None:
            limiter.settle(decision.reservation, settled)
    await healthy.drain()

    first, org, second, other, nobody = await live(
        redis_url, (ORG, "a1"), (ORG, None), (ORG, "a2"), (OTHER, "b1"), (OTHER, "b2")
    )

    assert [n.agent.used for n in (first, org, second, other, nobody)] == [2, 0, 1, 1, 0]
    assert [n.org.used for n in (first, org, second, other, nobody)] == [3, 3, 3, 1, 1]
    assert {n.platform.used for n in (first, org, second, other, nobody)} == {4}
    assert [(n.tokens_used, n.tokens_held, n.in_flight) for n in (org, other)] == [
        (10, 14, 2), (3, 0, 0)
    ]  # fmt: skip
    assert 59_000 < first.agent.reset_ms <= 61_000
    decision = await limiter.admit(subject(), 0, 0)
    assert (decision.agent_used, decision.org_used, decision.global_used) == (3, 4, 5)
    assert (decision.tokens_used, decision.tokens_held) == (org.tokens_used, org.tokens_held)
    limiter.settle(decision.reservation, 0)


async def test_a_lapsed_lease_is_not_in_flight(any_redis_url: str) -> None:
    """Whose gateway has died is not counted any more, though nobody has cleared it away yet."""
    with redis.Redis.from_url(any_redis_url) as client:
        scripts = Scripts(client)
        seconds, _ = client.time()
        scripts.now_ms = int(seconds) * 1000 - 30_000
        scripts.admit(Ask(), Ask(), lease_s=20)
        scripts.admit_one(Ask(), lease_s=60)

    (numbers,) = await live(any_redis_url, (ORG, None))

    assert numbers.in_flight == 1


async def test_round_trips_do_not_depend_on_how_many_are_asked_for(
    redis_url: str, look: Look
) -> None:
    """Two, for one organization or for fifty agents of three."""
    targets = [(org, agent) for org in ("o1", "o2", "o3") for agent in ("a1", None, "a2")]

    async def transactions(*wanted: tuple[str, str | None]) -> int:
        look.redis.config_resetstat()
        await live(redis_url, *wanted)
        return int(look.redis.info("commandstats")["cmdstat_exec"]["calls"])

    assert await transactions((ORG, None)) == await transactions(*targets) == 1


async def test_an_idle_organization_is_zero(redis_url: str) -> None:
    """Nothing is in Redis for it, and nothing is made by looking."""
    (numbers,) = await live(redis_url, (ORG, "a1"))

    assert (numbers.agent.used, numbers.agent.reset_ms, numbers.org.used) == (0, 0, 0)
    assert (numbers.tokens_used, numbers.tokens_held, numbers.in_flight) == (0, 0, 0)


async def test_without_redis_it_says_so() -> None:
    """Zeros would be a lie."""
    with pytest.raises(LimiterUnavailableError):
        await live("redis://127.0.0.1:1/0", (ORG, None))

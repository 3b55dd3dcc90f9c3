"""What puts lists in order are the numbers by which the limiter decides."""

import random

import pytest
import redis
from running import Look
from script_calls import ORG, Ask, Scripts

from lua import keys
from lua.connection import RedisAddress, connect
from lua.errors import LimiterUnavailableError
from lua.usage import LiveNumbers
from lua.uses import AT_ONCE, Target, Use

OTHER = "22222222-2222-4222-8222-222222222222"
ORGS = (ORG, OTHER, "33333333-3333-4333-8333-333333333333")


async def uses(url: str, targets: list[Target]) -> list[Use]:
    client = connect(RedisAddress(url), timeout_s=5)
    try:
        return await LiveNumbers(client).uses(targets)
    finally:
        await client.aclose()


async def test_uses_are_the_live_numbers_of_each(any_redis_url: str) -> None:
    """Requests that have not left the window; tokens used and held, of organizations alone."""
    chance = random.Random(1)
    targets: list[Target] = [(org, agent) for org in ORGS for agent in (None, "a1", "a2", "idle")]
    with redis.Redis.from_url(any_redis_url) as client:
        scripts = Scripts(client)
        seconds, _ = client.time()
        for age_s in range(100, -1, -4):
            scripts.now_ms = (int(seconds) - age_s) * 1000
            asks = [
                Ask(chance.choice(ORGS[:2]), chance.choice(("a1", "a2")), needed=5)
                for _ in range(chance.randint(0, 3))
            ]
            verdicts = scripts.admit(*asks, lease_s=600)
            if verdicts:
                scripts.settle((verdicts[0], 7))
    chance.shuffle(targets)

    found = await uses(any_redis_url, targets)
    client_ = connect(RedisAddress(any_redis_url), timeout_s=5)
    numbers = await LiveNumbers(client_).of(targets)
    await client_.aclose()

    assert found == [
        Use(live.agent.used, 0)
        if agent
        else Use(live.org.used, live.tokens_used + live.tokens_held)
        for (_, agent), live in zip(targets, numbers, strict=True)
    ]
    of_ours = found[targets.index((ORG, None))]
    assert (of_ours.requests > 5, of_ours.tokens > of_ours.requests * 5) == (True, True)
    assert found[targets.index((ORGS[2], None))] == Use(0, 0)


async def test_many_are_asked_for_in_parts(redis_url: str, look: Look) -> None:
    """Each part is one call, which is short; the order is that of the targets all along."""
    targets: list[Target] = [(ORG, f"a{number}") for number in range(2 * AT_ONCE + 1)]
    scripts = Scripts(look.redis)
    seconds, _ = look.redis.time()
    scripts.now_ms = int(seconds) * 1000
    for number in (0, AT_ONCE - 1, AT_ONCE, 2 * AT_ONCE):
        scripts.admit(*[Ask(agent=f"a{number}")] * (number % 7 + 1))
    look.redis.config_resetstat()

    found = await uses(redis_url, targets)

    assert {place: use.requests for place, use in enumerate(found) if use.requests} == {
        number: number % 7 + 1 for number in (0, AT_ONCE - 1, AT_ONCE, 2 * AT_ONCE)
    }
    assert look.script_calls() == 3 + 1  # the first is sent again in full


async def test_what_is_not_the_limiters_own_counts_as_nothing(redis_url: str, look: Look) -> None:
    """It is left alone, and hides nothing of the others."""
    look.redis.set(keys.agent_ring(ORG, "a1"), "mine")
    look.redis.hset(keys.agent_ring(ORG, "a2"), "seconds", "x" * 7)
    look.redis.set(keys.month_tokens(ORG), "mine")
    scripts = Scripts(look.redis)
    seconds, _ = look.redis.time()
    scripts.now_ms = int(seconds) * 1000
    scripts.admit_one(Ask(OTHER, "b1", needed=4))
    before = {key: look.redis.dump(key) for key in look.redis.scan_iter("*")}

    found = await uses(
        redis_url, [(ORG, "a1"), (ORG, "a2"), (OTHER, "b1"), (ORG, None), (OTHER, None)]
    )

    assert found == [Use(0, 0), Use(0, 0), Use(1, 0), Use(0, 0), Use(1, 4)]
    assert {key: look.redis.dump(key) for key in look.redis.scan_iter("*")} == before


async def test_nobody_is_asked_about_nothing(redis_url: str, look: Look) -> None:
    """No target, no call."""
    look.redis.config_resetstat()

    assert await uses(redis_url, []) == []
    assert look.script_calls() == 0


async def test_without_redis_nothing_is_known() -> None:
    """Zeros would put everybody in a wrong order."""
    with pytest.raises(LimiterUnavailableError):
        await uses("redis://127.0.0.1:1/0", [(ORG, None)])

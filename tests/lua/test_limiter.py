"""The limiter on a real server in good health: nothing is ever admitted open here."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest
from running import Look, Running, running, subject, through
from script_calls import START_MS, Ask, Scripts
from tcp_proxy import TcpProxy

from lua.decision import Decision, Subject
from lua.limiter import BATCH


async def admit_all(it: Running, subjects: Sequence[Subject]) -> list[Decision]:
    """All at once, in this order, each needing its place in the order + 1 tokens."""
    return await asyncio.gather(
        *(it.limiter.admit(asked, place, 0) for place, asked in enumerate(subjects, 1))
    )


async def test_a_decision_is_what_the_script_replies(redis_url: str, look: Look) -> None:
    """Number by number the same as a direct call: admitted, and denied at each level."""
    asks = [
        Ask(needed=5, extra=7, ceiling=100),
        Ask(agent_rpm=1),
        Ask(org_rpm=1),
        Ask(global_rpm=1),
        Ask(ceiling=12, needed=1),
    ]
    scripts = Scripts(look.redis)
    expected = [scripts.admit_one(ask) for ask in asks]
    look.redis.flushall()

    async with running(redis_url, clock_ms=lambda: START_MS) as it:
        decisions = [await it.limiter.admit(as_subject(a), a.needed, a.extra) for a in asks]

    assert [d.level for d in decisions] == [None, "agent", "org", "global", "tokens"]
    for decision, verdict in zip(decisions, expected, strict=True):
        assert not decision.is_open
        assert (decision.now_ms, decision.admitted) == (START_MS, verdict.admitted)
        assert decision.level == verdict.level
        assert (decision.agent_used, decision.org_used, decision.global_used) == verdict.used
        assert decision.tokens_used == verdict.tokens_used
        assert decision.tokens_held == verdict.tokens_held
        assert (-1 if decision.retry_after_ms is None else decision.retry_after_ms) == (
            verdict.retry_after_ms
        )
        assert (decision.agent_frees_ms, decision.org_frees_ms) == verdict.frees_ms
        assert (decision.agent_reset_ms, decision.org_reset_ms) == verdict.empty_ms
        held = decision.reservation.member.split(":")[1:]
        assert held == (verdict.member.split(":")[1:] if verdict.admitted else ["0", "0"])


def as_subject(ask: Ask) -> Subject:
    """The same request for the limiter."""
    rpm = [None if limit < 0 else limit for limit in (ask.agent_rpm, ask.org_rpm, ask.global_rpm)]
    return Subject.of(
        (ask.org, ask.agent), (rpm[0], rpm[1], rpm[2]), None if ask.ceiling < 0 else ask.ceiling
    )


async def test_what_arrives_at_once_is_one_call(healthy: Running, look: Look) -> None:
    """No call per request, and no waiting for company either: one request goes alone."""
    await healthy.limiter.load()
    look.redis.config_resetstat()

    await healthy.limiter.admit(subject(), 0, 0)
    assert look.script_calls() == 1
    await admit_all(healthy, [subject()] * BATCH)
    assert look.script_calls() == 2


async def test_who_comes_one_turn_later_goes_along(healthy: Running, look: Look) -> None:
    """Requests that were read at once reach the limiter in neighboring turns of the loop."""
    await healthy.limiter.load()
    look.redis.config_resetstat()

    async def later() -> Decision:
        await asyncio.sleep(0)
        return await healthy.limiter.admit(subject(), 0, 0)

    await asyncio.gather(healthy.limiter.admit(subject(), 0, 0), later())

    assert look.script_calls() == 1


@pytest.mark.parametrize(("count", "calls"), [(1, 1), (BATCH, 1), (BATCH + 1, 2), (3 * BATCH, 3)])
async def test_what_arrives_during_a_call_is_gathered(
    redis_url: str, look: Look, count: int, calls: int
) -> None:
    """It goes out when the answer is there, in as few calls as the batch allows."""
    async with (
        TcpProxy(urlsplit(redis_url).port or 0) as proxy,
        running(through(redis_url, proxy.port)) as it,
    ):
        await it.limiter.load()
        look.redis.config_resetstat()
        proxy.delay_replies(0.1)
        first = asyncio.create_task(it.limiter.admit(subject(), 0, 0))
        await asyncio.sleep(0.03)
        waiting = [asyncio.create_task(it.limiter.admit(subject(), 0, 0)) for _ in range(count)]
        await first
        proxy.heal()

        decisions = await asyncio.gather(*waiting)

        assert look.script_calls() == 1 + calls
        assert [d.org_used for d in decisions] == list(range(2, count + 2))
        assert (it.limiter.admitted_open, it.limiter.broken) == (0, 0)


async def test_first_come_first_served(healthy: Running) -> None:
    """Over the borders of batches: the first 200 of 500 pass, in the order of their calls."""
    decisions = await admit_all(healthy, [subject(rpm=(None, 200, None))] * 500)

    assert [d.admitted for d in decisions] == [True] * 200 + [False] * 300


async def test_everyone_of_a_batch_gets_their_own_answer(healthy: Running) -> None:
    """1,000 organizations of their own, their tokens and limits told apart in the answers."""
    subjects = [subject(f"org-{i}", rpm=(None, i % 3, None), ceiling=9999) for i in range(1000)]

    decisions = await admit_all(healthy, subjects)

    for i, decision in enumerate(decisions):
        assert decision.subject is subjects[i]
        assert decision.admitted == (i % 3 > 0)
        assert decision.tokens_held == (i + 1 if decision.admitted else 0)


async def test_scripts_flushed_between_and_during_calls(healthy: Running, look: Look) -> None:
    """The script cache is lost again and again; every limit and every count stays exact."""
    async with asyncio.TaskGroup() as group:
        flushing = group.create_task(flush_scripts(look))
        decisions: list[Decision] = []
        for _ in range(20):
            decisions += await admit_all(healthy, [subject(rpm=(None, 300, None))] * 25)
            for decision in decisions[-25:]:
                healthy.limiter.settle(decision.reservation, 2 * decision.admitted)
            look.redis.script_flush()
        flushing.cancel()
    await healthy.drain()

    assert sum(d.admitted for d in decisions) == 300
    assert look.month() == (600, 0)


async def flush_scripts(look: Look) -> None:
    """Until cancelled, many times a second."""
    while True:
        look.redis.script_flush()
        await asyncio.sleep(0.001)


async def test_settling_twice_counts_once(healthy: Running, look: Look) -> None:
    """Whoever settles on two ways out of a request is counted for the first."""
    decision = await healthy.limiter.admit(subject(), 10, 0)
    assert look.month() == (0, 10)

    healthy.limiter.settle(decision.reservation, 4)
    healthy.limiter.settle(decision.reservation, 5)
    await healthy.drain()
    healthy.limiter.settle(decision.reservation, 6)
    await healthy.drain()

    assert look.month() == (4, 0)
    assert look.open_reservations() == 0


async def test_settling_a_denial_changes_nothing(healthy: Running, look: Look) -> None:
    """It held nothing; no token is counted, no key appears in the month."""
    decision = await healthy.limiter.admit(subject(rpm=(0, None, None)), 10, 0)

    healthy.limiter.settle(decision.reservation, 0)
    await healthy.drain()

    assert look.month() == (0, 0)


async def test_a_healed_key_is_counted_as_broken(redis_url: str, look: Look) -> None:
    """No outage: the requests are decided, and an operator can see that something wrote there."""
    async with running(redis_url) as it:
        look.redis.set("ratelimit:global:minute", "foreign")

        decision = await it.limiter.admit(subject(), 0, 0)

        assert (decision.is_open, decision.global_used) == (False, 1)
        assert (it.limiter.broken, it.limiter.admitted_open) == (1, 0)


async def test_a_key_healed_by_settling_is_counted_as_broken(redis_url: str, look: Look) -> None:
    """The same where it is the settling that meets it."""
    async with running(redis_url) as it:
        decision = await it.limiter.admit(subject(), 0, 0)
        look.redis.set("ratelimit:global:minute", "foreign")
        it.limiter.settle(decision.reservation, 5)
        await it.drain()

        assert look.redis.type("ratelimit:global:minute") == b"hash"
        assert it.limiter.broken == 1

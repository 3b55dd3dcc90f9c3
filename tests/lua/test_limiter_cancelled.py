"""Callers that go away: nobody else notices, and nothing stays held for them."""

import asyncio
import random

import pytest
from running import Look, Running, subject
from script_calls import ORG

from lua.decision import Decision


@pytest.mark.parametrize("seed", range(3))
async def test_cancelled_callers_disturb_nobody_and_hold_nothing(
    healthy: Running, look: Look, seed: int
) -> None:
    """Half of 1,000 go at random moments: the others get their own answers, and no hold stays."""
    dice = random.Random(seed)
    orgs = [f"org-{i}" for i in range(1000)]
    callers = []
    loop = asyncio.get_running_loop()
    for place, org in enumerate(orgs, 1):
        caller = asyncio.create_task(healthy.limiter.admit(subject(org), place, 0))
        callers.append(caller)
        if dice.random() < 0.5:
            loop.call_later(dice.uniform(0, 0.06), caller.cancel)
        if dice.random() < 0.05:
            await asyncio.sleep(0.001)

    answers = await asyncio.gather(*callers, return_exceptions=True)

    decisions = [a for a in answers if isinstance(a, Decision)]
    assert {type(a) for a in answers} == {Decision, asyncio.CancelledError}
    for place, answer in enumerate(answers, 1):
        if isinstance(answer, Decision):
            assert (answer.admitted, answer.tokens_held) == (True, place)
    for decision in decisions:
        healthy.limiter.settle(decision.reservation, 1)
    await healthy.limiter.close(5)
    months = [look.month(org) for org in orgs]
    assert sum(used for used, _ in months) == len(decisions)
    assert [org for org, (_, held) in zip(orgs, months, strict=True) if held] == []
    assert [org for org in orgs if look.open_reservations(org)] == []


async def test_a_caller_cancelled_beside_its_answer_holds_nothing(
    healthy: Running, look: Look
) -> None:
    """The answer is there, the caller was told to stop before it could take it."""
    second: asyncio.Task[Decision]

    async def first() -> None:
        await healthy.limiter.admit(subject(), 10, 0)
        second.cancel()

    task = asyncio.create_task(first())
    second = asyncio.create_task(healthy.limiter.admit(subject("other"), 20, 0))
    await task
    with pytest.raises(asyncio.CancelledError):
        await second
    await healthy.drain()

    assert look.month(ORG) == (0, 10)
    assert look.month("other") == (0, 0)
    assert look.open_reservations("other") == 0


async def test_a_batch_of_cancelled_callers_is_not_sent(healthy: Running, look: Look) -> None:
    """Nobody waits for it, so nothing is counted; the next caller is served."""
    gone = [asyncio.create_task(healthy.limiter.admit(subject(), 10, 0)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)

    decision = await healthy.limiter.admit(subject(), 1, 0)

    assert (decision.org_used, decision.tokens_held) == (1, 1)
    assert look.open_reservations() == 1

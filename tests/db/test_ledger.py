"""The durable ledger: only ever raised, so that copies may be doubled, late or out of order."""

import asyncio
import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from db.ledger import Ledger, UsageMinute, UsageSpan

ORG, AGENT, OTHER = (str(uuid.UUID(int=number)) for number in (1, 2, 3))
START = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)


@pytest.fixture
def ledger(pool: asyncpg.Pool) -> Ledger:
    """An empty one."""
    return Ledger(pool)


def minute(at: int, agent_id: str = AGENT, **counts: int) -> UsageMinute:
    """`at` minutes from START on."""
    nothing = dict.fromkeys(("requests", "denied", "opened", "tokens", "estimated"), 0)
    return UsageMinute(ORG, agent_id, START + timedelta(minutes=at), **(nothing | counts))


async def test_copies_may_be_doubled_late_and_side_by_side(ledger: Ledger) -> None:
    """Whatever the order of what was seen of growing counters, what is kept is where they ended."""
    dice = random.Random(7)  # not a secret
    grown = [
        minute(at, requests=step * dice.randint(0, 3), tokens=step * 10, denied=step // 2)
        for at in range(40)
        for step in range(1, 6)
    ]
    ends = {
        row.minute: replace(
            row,
            requests=max(g.requests for g in grown if g.minute == row.minute),
            denied=max(g.denied for g in grown if g.minute == row.minute),
        )
        for row in grown
    }
    copies = grown * 2
    dice.shuffle(copies)

    await asyncio.gather(*(ledger.write_minutes([copy]) for copy in copies))

    spans = await ledger.spans(ORG, AGENT, "hour", START, START + timedelta(hours=1))
    assert spans == [
        UsageSpan(
            START,
            requests=sum(end.requests for end in ends.values()),
            denied=sum(end.denied for end in ends.values()),
            tokens=sum(end.tokens for end in ends.values()),
        )
    ]


async def test_many_rows_are_written_whole_by_several_at_once(ledger: Ledger) -> None:
    """Also more than one statement takes, in any order, without a deadlock."""
    rows = [minute(at, requests=1, tokens=2, estimated=1, opened=3) for at in range(12_000)]
    await asyncio.gather(ledger.write_minutes(rows), ledger.write_minutes(rows[::-1]))

    spans = await ledger.spans(ORG, AGENT, "day", START, START + timedelta(days=10))

    assert sum(span.requests for span in spans) == 12_000
    assert spans[0] == UsageSpan(
        datetime(2026, 11, 30, tzinfo=UTC), 120, opened=360, tokens=240, estimated=120
    )
    assert [span.start.day for span in spans] == [30, 1, 2, 3, 4, 5, 6, 7, 8, 9]


async def test_an_organization_and_its_agents_are_kept_apart(ledger: Ledger) -> None:
    """The whole is copied from its own counter, not summed up from its parts."""
    await ledger.write_minutes([minute(0, requests=3), minute(0, ORG, requests=5)])
    ends = START + timedelta(hours=1)

    (agent,) = await ledger.spans(ORG, AGENT, "hour", START, ends)
    (whole,) = await ledger.spans(ORG, None, "hour", START, ends)

    assert (agent.requests, whole.requests) == (3, 5)
    assert await ledger.spans(OTHER, AGENT, "hour", START, ends) == []


async def test_a_month_is_raised_and_told_to_who_asks_again(ledger: Ledger) -> None:
    """A lower copy changes nothing; what was written since the last question is in the answer."""
    await ledger.write_months({(ORG, "2026-11"): 50, (OTHER, "2026-11"): 7, (ORG, "2026-10"): 9})
    first, until = await ledger.months("2026-11")
    await ledger.write_months({(ORG, "2026-11"): 40, (OTHER, "2026-11"): 8})
    second, _ = await ledger.months("2026-11", until)

    assert first == {ORG: 50, OTHER: 7}
    assert second == {ORG: 50, OTHER: 8}
    assert await ledger.months("2026-12") == ({}, None)
    await ledger.write_months({})


async def test_what_is_older_than_thirteen_months_is_removed(
    ledger: Ledger, pool: asyncpg.Pool
) -> None:
    """All of it; what is younger stays."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    old, young = now - timedelta(days=400), now - timedelta(days=390)
    rows = [
        replace(minute(0, requests=1), minute=day + timedelta(minutes=at))
        for day in (old, young)
        for at in range(30)
    ]
    await ledger.write_minutes(rows)
    await ledger.write_months({(ORG, f"{old:%Y-%m}"): 1, (ORG, f"{now:%Y-%m}"): 1})

    assert await ledger.prune() == 30

    assert await pool.fetchval("SELECT count(*) FROM ibex_core.usage_minutes") == 30
    assert await pool.fetchval("SELECT count(*) FROM ibex_core.usage_months") == 1
    assert await ledger.prune() == 0

"""The durable ledger: usage per minute and per month, kept for 13 months.

It is copied from the limiter's own counters, and a value is only ever raised. So it does not matter
how often something is copied, by how many at once, or how late. The methods raise the errors of
`db.errors`. Ids must be UUIDs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime
from typing import Literal

import asyncpg

from db.connection import borrowed

WRITES_S = 10.0
"""How long one statement may take at most."""
READS_S = 5.0
AT_ONCE = 10_000
"""Rows of one statement."""

_KEPT = "now() - interval '13 months'"
_WRITE_MINUTES = """
    INSERT INTO ibex_core.usage_minutes AS kept
        (org_id, agent_id, minute, requests, denied, opened, tokens, estimated)
    SELECT * FROM unnest(
        $1::uuid[], $2::uuid[], $3::timestamptz[],
        $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]
    ) ORDER BY 1, 2, 3
    ON CONFLICT (org_id, agent_id, minute) DO UPDATE SET
        requests = greatest(kept.requests, excluded.requests),
        denied = greatest(kept.denied, excluded.denied),
        opened = greatest(kept.opened, excluded.opened),
        tokens = greatest(kept.tokens, excluded.tokens),
        estimated = greatest(kept.estimated, excluded.estimated)
    WHERE kept.requests < excluded.requests OR kept.denied < excluded.denied
        OR kept.opened < excluded.opened OR kept.tokens < excluded.tokens
        OR kept.estimated < excluded.estimated
"""
_WRITE_MONTHS = """
    INSERT INTO ibex_core.usage_months AS kept (org_id, month, tokens)
    SELECT * FROM unnest($1::uuid[], $2::date[], $3::bigint[]) ORDER BY 1, 2
    ON CONFLICT (org_id, month) DO UPDATE SET tokens = excluded.tokens, updated_at = now()
    WHERE kept.tokens < excluded.tokens
"""
_MONTHS = """
    SELECT org_id::text, tokens, now() AS at FROM ibex_core.usage_months
    WHERE month = $1 AND ($2::timestamptz IS NULL OR updated_at > $2 - interval '1 minute')
"""
_SPANS = """
    SELECT
        date_trunc($5, minute, 'UTC') AS start,
        sum(requests)::bigint AS requests, sum(denied)::bigint AS denied,
        sum(opened)::bigint AS opened, sum(tokens)::bigint AS tokens,
        sum(estimated)::bigint AS estimated
    FROM ibex_core.usage_minutes
    WHERE org_id = $1 AND agent_id = $2 AND minute >= $3 AND minute < $4
    GROUP BY 1 ORDER BY 1
"""
_PRUNE = f"""
    DELETE FROM ibex_core.usage_minutes WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ibex_core.usage_minutes WHERE minute < {_KEPT} LIMIT {AT_ONCE}
    ))
"""  # noqa: S608  # both are constants
_PRUNE_MONTHS = f"DELETE FROM ibex_core.usage_months WHERE month < {_KEPT}"  # noqa: S608

Span = Literal["hour", "day"]


@dataclass(frozen=True, slots=True)
class UsageMinute:
    """One minute of an agent, or of an organization (`agent_id` is then the organization's)."""

    org_id: str
    agent_id: str
    minute: datetime
    requests: int
    denied: int
    opened: int
    tokens: int
    estimated: int


@dataclass(frozen=True, slots=True)
class UsageSpan:
    """The sum of an hour or a day that begins at `start`, in UTC."""

    start: datetime
    requests: int = 0
    denied: int = 0
    opened: int = 0
    tokens: int = 0
    estimated: int = 0


class Ledger:
    """The ledger, over a pool from `connect`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def write_minutes(self, minutes: Sequence[UsageMinute]) -> None:
        """Raise these minutes to what is said of them; each of them may be named once."""
        for at in range(0, len(minutes), AT_ONCE):
            columns = zip(*map(astuple, minutes[at : at + AT_ONCE]), strict=True)
            async with borrowed(self._pool, WRITES_S) as connection:
                await connection.execute(_WRITE_MINUTES, *map(list, columns))

    async def write_months(self, tokens: Mapping[tuple[str, str], int]) -> None:
        """Raise these months, by organization and month (`2026-11`)."""
        if not tokens:
            return
        orgs, months = zip(*tokens, strict=True)
        async with borrowed(self._pool, WRITES_S) as connection:
            await connection.execute(
                _WRITE_MONTHS, orgs, list(map(_first_day, months)), list(tokens.values())
            )

    async def months(
        self, month: str, since: datetime | None = None
    ) -> tuple[dict[str, int], datetime | None]:
        """Tokens by organization in that month, of rows written since; and until when they are
        known, which is what the next call may ask from.
        """
        async with borrowed(self._pool, READS_S) as connection:
            rows = await connection.fetch(_MONTHS, _first_day(month), since)
        return {row["org_id"]: row["tokens"] for row in rows}, rows[0]["at"] if rows else since

    async def spans(
        self, org_id: str, agent_id: str | None, by: Span, since: datetime, until: datetime
    ) -> list[UsageSpan]:
        """The hours or days of an agent, or of the organization (None), that hold anything."""
        async with borrowed(self._pool, READS_S) as connection:
            rows = await connection.fetch(_SPANS, org_id, agent_id or org_id, since, until, by)
        return [UsageSpan(**row) for row in rows]

    async def prune(self) -> int:
        """Remove what is older than 13 months, a part at a time; returns how many minutes."""
        removed = 0
        while True:
            async with borrowed(self._pool, WRITES_S) as connection:
                await connection.execute(_PRUNE_MONTHS)
                count = int((await connection.execute(_PRUNE)).rpartition(" ")[2])
            removed += count
            if count < AT_ONCE:
                return removed


def _first_day(month: str) -> date:
    return datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC).date()

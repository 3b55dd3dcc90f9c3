"""Limits that are set for organizations and agents, and the record of who set them."""

from collections.abc import Sequence

import asyncpg

from db.errors import NotFound
from db.limits import Override, OverrideChange, changed
from db.rows import Author, LimitsSet, Overrides, Target

# A row for each target, in their order.
_READ = """
    SELECT target.org_id::text, target.agent_id::text,
           agent.id IS NOT NULL OR target.agent_id IS NULL AS has_agent, organization.version,
           org_override.requests_per_minute AS org_requests,
           org_override.tokens_per_month AS org_tokens,
           agent_override.requests_per_minute AS agent_requests,
           latest.at AS updated_at, latest.actor AS updated_by
    FROM unnest($1::text[]::uuid[], $2::text[]::uuid[])
        WITH ORDINALITY AS target (org_id, agent_id, place)
    LEFT JOIN ibex_core.organizations AS organization ON organization.id = target.org_id
    LEFT JOIN ibex_core.agents AS agent
        ON agent.org_id = target.org_id AND agent.id = target.agent_id
    LEFT JOIN ibex_core.rate_limit_overrides AS org_override
        ON org_override.org_id = target.org_id AND org_override.agent_id IS NULL
    LEFT JOIN ibex_core.rate_limit_overrides AS agent_override
        ON agent_override.org_id = target.org_id AND agent_override.agent_id = target.agent_id
    LEFT JOIN LATERAL (
        SELECT at, actor FROM ibex_core.rate_limit_changes
        WHERE COALESCE(agent_id, org_id) = COALESCE(target.agent_id, target.org_id)
        ORDER BY id DESC LIMIT 1
    ) AS latest ON true
    ORDER BY target.place
"""
# Each names the partial unique index that keeps its kind of row single.
_SET_ORGANIZATION = """
    INSERT INTO ibex_core.rate_limit_overrides (org_id, requests_per_minute, tokens_per_month)
    VALUES ($1, $2, $3)
    ON CONFLICT (org_id) WHERE agent_id IS NULL DO UPDATE SET
        requests_per_minute = excluded.requests_per_minute,
        tokens_per_month = excluded.tokens_per_month,
        updated_at = now()
"""
_SET_AGENT = """
    INSERT INTO ibex_core.rate_limit_overrides
        (org_id, requests_per_minute, tokens_per_month, agent_id)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (org_id, agent_id) WHERE agent_id IS NOT NULL DO UPDATE SET
        requests_per_minute = excluded.requests_per_minute,
        tokens_per_month = excluded.tokens_per_month,
        updated_at = now()
"""
_RECORD = """
    INSERT INTO ibex_core.rate_limit_changes (org_id, agent_id, actor, via, field, old, new)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
_FIELDS = ("requests_per_minute", "tokens_per_month")


async def read(connection: asyncpg.Connection, targets: Sequence[Target]) -> list[LimitsSet]:
    """Return what is set for each, in one query. Raises NotFound for the first that is unknown."""
    org_ids, agent_ids = [org_id for org_id, _ in targets], [agent_id for _, agent_id in targets]
    return [_limits_set(row) for row in await connection.fetch(_READ, org_ids, agent_ids)]


async def change(
    connection: asyncpg.Connection,
    org_id: str,
    agent_id: str | None,
    wanted: OverrideChange,
    author: Author,
) -> tuple[Override, Override]:
    """Change an override and record every limit that differs. Returns before and after.

    The caller holds the organization's lock.
    """
    (current,) = await read(connection, [(org_id, agent_id)])
    before = current.overrides.org if agent_id is None else current.overrides.agent
    after = changed(before, wanted)
    if before == after:
        return before, after
    limits = (after.requests_per_minute, after.tokens_per_month)
    if agent_id is None:
        await connection.execute(_SET_ORGANIZATION, org_id, *limits)
    else:
        await connection.execute(_SET_AGENT, org_id, *limits, agent_id)
    for field in _FIELDS:
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            record = (org_id, agent_id, author.actor, author.via, field, old, new)
            await connection.execute(_RECORD, *record)
    return before, after


def _limits_set(row: asyncpg.Record) -> LimitsSet:
    if row["version"] is None:
        raise NotFound("organization", row["org_id"])
    if not row["has_agent"]:
        raise NotFound("agent", row["agent_id"])
    return LimitsSet(
        row["org_id"],
        row["agent_id"],
        row["version"],
        Overrides(
            org=Override(row["org_requests"], row["org_tokens"]),
            agent=Override(row["agent_requests"]),
        ),
        row["updated_at"],
        row["updated_by"],
    )

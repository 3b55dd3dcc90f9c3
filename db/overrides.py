"""Limits that are set for organizations and agents, and the record of who set them."""

import asyncpg

from db.errors import NotFound
from db.limits import INHERIT, Override, OverrideChange, changed
from db.rows import Author, Overrides

_AGENT_EXISTS = "SELECT true FROM ibex_core.agents WHERE org_id = $1 AND id = $2"
_READ_ORGANIZATION = """
    SELECT requests_per_minute, tokens_per_month
    FROM ibex_core.rate_limit_overrides WHERE org_id = $1 AND agent_id IS NULL
"""
_READ_AGENT = """
    SELECT requests_per_minute, tokens_per_month
    FROM ibex_core.rate_limit_overrides WHERE org_id = $1 AND agent_id = $2
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


async def read(connection: asyncpg.Connection, org_id: str, agent_id: str | None) -> Overrides:
    """Return what is set. Raises NotFound for an agent that the organization does not have."""
    org = _override(await connection.fetchrow(_READ_ORGANIZATION, org_id))
    if agent_id is None:
        return Overrides(org, INHERIT)
    if not await connection.fetchval(_AGENT_EXISTS, org_id, agent_id):
        raise NotFound("agent", agent_id)
    return Overrides(org, _override(await connection.fetchrow(_READ_AGENT, org_id, agent_id)))


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
    current = await read(connection, org_id, agent_id)
    before = current.org if agent_id is None else current.agent
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


def _override(row: asyncpg.Record | None) -> Override:
    return INHERIT if row is None else Override(**row)

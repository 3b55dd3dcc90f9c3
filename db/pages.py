"""Lists, a page at a time. A cursor is the id of the last row before the page, None at the start.

Each query returns at most `first` rows. A cursor that names no row of the list has nothing behind
it, whether that row belongs to another organization or to nobody.
"""

import asyncpg

from db.rows import Agent, ApiKey, LimitChange, Organization

_ORGANIZATIONS = """
    SELECT id::text, name, version, created_at
    FROM ibex_core.organizations
    WHERE ($1::text IS NULL OR id = $1::text::uuid)
        AND ($2::text IS NULL OR (created_at, id) > (
            SELECT created_at, id FROM ibex_core.organizations WHERE id = $2::text::uuid))
    ORDER BY created_at, id LIMIT $3
"""
_AGENTS = """
    SELECT id::text, org_id::text, name, created_at
    FROM ibex_core.agents
    WHERE org_id = $1
        AND ($2::text IS NULL OR (created_at, id) > (
            SELECT created_at, id FROM ibex_core.agents
            WHERE org_id = $1 AND id = $2::text::uuid))
    ORDER BY created_at, id LIMIT $3
"""
_KEYS = """
    SELECT id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
    FROM ibex_core.api_keys
    WHERE org_id = $1
        AND ($2::text IS NULL OR (created_at, id) > (
            SELECT created_at, id FROM ibex_core.api_keys
            WHERE org_id = $1 AND id = $2::text::uuid))
    ORDER BY created_at, id LIMIT $3
"""
_CHANGES = """
    SELECT c.id, c.at, c.actor, c.via, c.org_id::text, c.agent_id::text, c.field, c.old, c.new,
        a.name AS agent_name
    FROM ibex_core.rate_limit_changes c LEFT JOIN ibex_core.agents a ON a.id = c.agent_id
    WHERE c.org_id = $1 AND ($2::bigint IS NULL OR c.id < $2)
    ORDER BY c.id DESC LIMIT $3
"""


async def organizations(
    connection: asyncpg.Connection, only: str | None, after: str | None, first: int
) -> list[Organization]:
    """Return organizations, the oldest first; `only` this one if it is given."""
    rows = await connection.fetch(_ORGANIZATIONS, only, after, first)
    return [Organization(**row) for row in rows]


async def agents(
    connection: asyncpg.Connection, org_id: str, after: str | None, first: int
) -> list[Agent]:
    """Return agents of an organization, the oldest first."""
    return [Agent(**row) for row in await connection.fetch(_AGENTS, org_id, after, first)]


async def keys(
    connection: asyncpg.Connection, org_id: str, after: str | None, first: int
) -> list[ApiKey]:
    """Return keys of an organization's agents and operators, revoked ones too, oldest first."""
    return [ApiKey(**row) for row in await connection.fetch(_KEYS, org_id, after, first)]


async def changes(
    connection: asyncpg.Connection, org_id: str, after: int | None, first: int
) -> list[LimitChange]:
    """Return changes of limits of an organization and its agents, the newest first."""
    return [LimitChange(**row) for row in await connection.fetch(_CHANGES, org_id, after, first)]

"""What decides the order of long lists: of each row its id and what is set, and no more.

Rows come by name. Those of a page are then asked for by their ids.
"""

from collections.abc import Sequence

import asyncpg

from db.rows import Agent, Organization

_ORGANIZATIONS = """
    SELECT organization.id::text, override.requests_per_minute, override.tokens_per_month
    FROM ibex_core.organizations AS organization
    LEFT JOIN ibex_core.rate_limit_overrides AS override
        ON override.org_id = organization.id AND override.agent_id IS NULL
    WHERE $1::text IS NULL OR organization.id = $1::text::uuid
    ORDER BY organization.name, organization.id
"""
_AGENTS = """
    SELECT agent.id::text, override.requests_per_minute
    FROM ibex_core.agents AS agent
    LEFT JOIN ibex_core.rate_limit_overrides AS override
        ON override.org_id = agent.org_id AND override.agent_id = agent.id
    WHERE agent.org_id = $1
    ORDER BY agent.name, agent.id
"""
_ORGANIZATIONS_BY_ID = """
    SELECT id::text, name, version, created_at
    FROM ibex_core.organizations WHERE id = ANY ($1::text[]::uuid[])
"""
_AGENTS_BY_ID = """
    SELECT id::text, org_id::text, name, created_at
    FROM ibex_core.agents WHERE org_id = $1 AND id = ANY ($2::text[]::uuid[])
"""


async def organization_limits(
    connection: asyncpg.Connection, only: str | None
) -> list[tuple[str, int | None, int | None]]:
    """Return id, requests per minute and tokens per month of all, or of `only` this one."""
    return [tuple(row) for row in await connection.fetch(_ORGANIZATIONS, only)]


async def agent_limits(connection: asyncpg.Connection, org_id: str) -> list[tuple[str, int | None]]:
    """Return id and requests per minute of an organization's agents."""
    return [tuple(row) for row in await connection.fetch(_AGENTS, org_id)]


async def organizations(
    connection: asyncpg.Connection, ids: Sequence[str]
) -> dict[str, Organization]:
    """Return those that there are, by id."""
    rows = await connection.fetch(_ORGANIZATIONS_BY_ID, ids)
    return {row["id"]: Organization(**row) for row in rows}


async def agents(
    connection: asyncpg.Connection, org_id: str, ids: Sequence[str]
) -> dict[str, Agent]:
    """Return those that the organization has, by id."""
    rows = await connection.fetch(_AGENTS_BY_ID, org_id, ids)
    return {row["id"]: Agent(**row) for row in rows}

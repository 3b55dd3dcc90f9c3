"""What gateways hold in memory of every organization: three queries, however many there are."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection

import asyncpg

from db.limits import Override
from db.rows import AgentConfig, KeyConfig, OrganizationConfig

_ROWS_AT_ONCE = 1000
"""After so many rows the event loop gets a turn, so that traffic flows while all is loaded."""

_VERSIONS = "SELECT id::text, version FROM ibex_core.organizations"
_ORGANIZATIONS = """
    SELECT organization.id::text, organization.version,
           override.requests_per_minute, override.tokens_per_month
    FROM ibex_core.organizations AS organization
    LEFT JOIN ibex_core.rate_limit_overrides AS override
        ON override.org_id = organization.id AND override.agent_id IS NULL
    WHERE $1::text[] IS NULL OR organization.id = ANY ($1::text[]::uuid[])
"""
_AGENTS = """
    SELECT agent.org_id::text, agent.id::text, agent.name, override.requests_per_minute
    FROM ibex_core.agents AS agent
    LEFT JOIN ibex_core.rate_limit_overrides AS override
        ON override.org_id = agent.org_id AND override.agent_id = agent.id
    WHERE $1::text[] IS NULL OR agent.org_id = ANY ($1::text[]::uuid[])
"""
_KEYS = """
    SELECT org_id::text, id::text, digest, agent_id::text
    FROM ibex_core.api_keys
    WHERE role = 'agent' AND revoked_at IS NULL
        AND ($1::text[] IS NULL OR org_id = ANY ($1::text[]::uuid[]))
"""


async def versions(connection: asyncpg.Connection) -> dict[str, int]:
    """Return the version of every organization, by its id."""
    return {row["id"]: row["version"] for row in await connection.fetch(_VERSIONS)}


async def load(
    connection: asyncpg.Connection, org_ids: Collection[str] | None
) -> list[OrganizationConfig]:
    """Read these organizations, or all (None), in a transaction that sees one moment."""
    wanted = None if org_ids is None else list(org_ids)
    agents: dict[str, list[AgentConfig]] = defaultdict(list)
    async for org_id, agent_id, name, rpm in _rows(connection, _AGENTS, wanted):
        agents[org_id].append(AgentConfig(agent_id, name, Override(requests_per_minute=rpm)))
    keys: dict[str, list[KeyConfig]] = defaultdict(list)
    async for org_id, key_id, digest, agent_id in _rows(connection, _KEYS, wanted):
        keys[org_id].append(KeyConfig(key_id, digest, agent_id))
    return [
        OrganizationConfig(
            id=org_id,
            version=version,
            override=Override(rpm, tokens),
            agents=tuple(agents.get(org_id, ())),
            keys=tuple(keys.get(org_id, ())),
        )
        async for org_id, version, rpm, tokens in _rows(connection, _ORGANIZATIONS, wanted)
    ]


async def _rows(
    connection: asyncpg.Connection, query: str, org_ids: list[str] | None
) -> AsyncIterator[asyncpg.Record]:
    # No cursor: the driver gives it a named statement, which fails behind a pooler.
    for number, row in enumerate(await connection.fetch(query, org_ids)):
        if number % _ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
        yield row

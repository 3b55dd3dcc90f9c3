"""Organizations, agents, keys and limits in Postgres: queries in, frozen rows out.

Every method is one transaction. A change locks its organization first, so that changes of one
organization follow one another, and its version rises in the order in which they are committed.
The methods raise the errors of `db.errors`. Ids that are passed in must be UUIDs.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import asyncpg

from db import overrides, pages, ranking, snapshot
from db.connection import borrowed, connect
from db.errors import Conflict, NotFound
from db.ledger import Ledger
from db.limits import Override, OverrideChange
from db.rows import (
    Agent,
    ApiKey,
    Author,
    LimitChange,
    LimitsSet,
    NewKey,
    Organization,
    OrganizationConfig,
    Target,
)

__all__ = ["Repository", "connect"]

ANSWERS_S = 5.0
"""How long one use of Postgres takes at most, so that a frozen one is an error and not a wait."""
LOADS_S = 30.0
"""The same for reading everything that a gateway must know."""

_CREATE_ORGANIZATION = """
    INSERT INTO ibex_core.organizations (name) VALUES ($1)
    RETURNING id::text, name, version, created_at
"""
_ORGANIZATIONS = """
    SELECT id::text, name, version, created_at
    FROM ibex_core.organizations ORDER BY created_at, id
"""
_ORGANIZATION = """
    SELECT id::text, name, version, created_at FROM ibex_core.organizations WHERE id = $1
"""
_CREATE_AGENT = """
    INSERT INTO ibex_core.agents (org_id, name) VALUES ($1, $2)
    RETURNING id::text, org_id::text, name, created_at
"""
_AGENTS = """
    SELECT id::text, org_id::text, name, created_at
    FROM ibex_core.agents WHERE org_id = $1 ORDER BY created_at, id
"""
_AGENT = """
    SELECT id::text, org_id::text, name, created_at
    FROM ibex_core.agents WHERE id = $1 AND ($2::text IS NULL OR org_id = $2::text::uuid)
"""
_ADD_KEY = """
    INSERT INTO ibex_core.api_keys (role, org_id, agent_id, digest, prefix, name)
    VALUES ($1, $2, $3, $4, $5, $6)
    RETURNING id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
"""
_KEY = """
    SELECT id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
    FROM ibex_core.api_keys WHERE id = $1 AND ($2::text IS NULL OR org_id = $2::text::uuid)
"""
_AGENT_KEYS = """
    SELECT id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
    FROM ibex_core.api_keys WHERE org_id = $1 AND agent_id = $2 ORDER BY created_at, id
"""
_OPERATOR_KEY = """
    SELECT id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
    FROM ibex_core.api_keys WHERE digest = $1 AND revoked_at IS NULL AND role <> 'agent'
"""
_LIVE_OPERATOR_KEY = """
    SELECT id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
    FROM ibex_core.api_keys WHERE id = $1 AND revoked_at IS NULL AND role <> 'agent'
"""
_REVOKE_KEY = """
    UPDATE ibex_core.api_keys SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL
    RETURNING id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
"""
_VERSION = "SELECT version FROM ibex_core.organizations WHERE id = $1"
_EXISTS = "SELECT true FROM ibex_core.organizations WHERE id = $1"
_LOCK = "SELECT true FROM ibex_core.organizations WHERE id = $1 FOR NO KEY UPDATE"
_RAISE_VERSION = "UPDATE ibex_core.organizations SET version = version + 1 WHERE id = $1"


class Repository:
    """What Ibex knows, over a pool from `connect`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self.ledger = Ledger(pool)

    async def create_organization(self, name: str) -> Organization:
        async with self._transaction() as connection:
            return Organization(**await connection.fetchrow(_CREATE_ORGANIZATION, name))

    async def organizations(self) -> list[Organization]:
        async with self._transaction() as connection:
            return [Organization(**row) for row in await connection.fetch(_ORGANIZATIONS)]

    async def create_agent(self, org_id: str, name: str) -> Agent:
        async with self._change(org_id) as connection:
            await connection.execute(_RAISE_VERSION, org_id)
            return Agent(**await connection.fetchrow(_CREATE_AGENT, org_id, name))

    async def organization(self, org_id: str) -> Organization:
        async with self._transaction() as connection:
            row = await connection.fetchrow(_ORGANIZATION, org_id)
        if row is None:
            raise NotFound("organization", org_id)
        return Organization(**row)

    async def organizations_page(
        self, only: str | None, after: str | None, first: int
    ) -> list[Organization]:
        """Return a page of all organizations, or of `only` this one."""
        async with self._transaction() as connection:
            return await pages.organizations(connection, only, after, first)

    async def agents(self, org_id: str) -> list[Agent]:
        async with self._existing(org_id) as connection:
            return [Agent(**row) for row in await connection.fetch(_AGENTS, org_id)]

    async def agents_page(self, org_id: str, after: str | None, first: int) -> list[Agent]:
        async with self._existing(org_id) as connection:
            return await pages.agents(connection, org_id, after, first)

    async def organization_limits(
        self, only: str | None
    ) -> list[tuple[str, int | None, int | None]]:
        """Return of all, or of `only` this one, by name: id and the limits that are set for it."""
        async with self._transaction() as connection:
            return await ranking.organization_limits(connection, only)

    async def organizations_by_id(self, ids: Sequence[str]) -> dict[str, Organization]:
        async with self._transaction() as connection:
            return await ranking.organizations(connection, ids)

    async def agent_limits(self, org_id: str) -> list[tuple[str, int | None]]:
        """Return of each agent, by name: id and the requests per minute that are set for it."""
        async with self._existing(org_id) as connection:
            return await ranking.agent_limits(connection, org_id)

    async def agents_by_id(self, org_id: str, ids: Sequence[str]) -> dict[str, Agent]:
        async with self._transaction() as connection:
            return await ranking.agents(connection, org_id, ids)

    async def agent(self, agent_id: str, org_id: str | None = None) -> Agent:
        """Return an agent of that organization, or of any (None)."""
        async with self._transaction() as connection:
            row = await connection.fetchrow(_AGENT, agent_id, org_id)
        if row is None:
            raise NotFound("agent", agent_id)
        return Agent(**row)

    async def key(self, key_id: str, org_id: str | None) -> ApiKey:
        """Return a key of that organization, or any (None)."""
        async with self._transaction() as connection:
            return await _key(connection, key_id, org_id)

    async def operator_key(self, digest: bytes) -> ApiKey | None:
        """Return the live operator's key with this SHA-256, None where there is none."""
        async with self._transaction() as connection:
            row = await connection.fetchrow(_OPERATOR_KEY, digest)
        return row and ApiKey(**row)

    async def live_operator_key(self, key_id: str) -> ApiKey | None:
        """Return the operator's key with this id, None where there is none that is live."""
        async with self._transaction() as connection:
            row = await connection.fetchrow(_LIVE_OPERATOR_KEY, key_id)
        return row and ApiKey(**row)

    async def keys_page(self, org_id: str, after: str | None, first: int) -> list[ApiKey]:
        async with self._existing(org_id) as connection:
            return await pages.keys(connection, org_id, after, first)

    async def agent_keys(self, agent_id: str, org_id: str | None) -> list[ApiKey]:
        """Return the keys of an agent of that organization, or of any (None), the oldest first."""
        async with self._transaction() as connection:
            agent = await connection.fetchrow(_AGENT, agent_id, org_id)
            if agent is None:
                raise NotFound("agent", agent_id)
            rows = await connection.fetch(_AGENT_KEYS, agent["org_id"], agent_id)
            return [ApiKey(**row) for row in rows]

    async def add_key(self, key: NewKey) -> ApiKey:
        """Store a key. The agent of an agent's key must exist, and be the organization's."""
        row = (key.role, key.org_id, key.agent_id, key.digest, key.prefix, key.name)
        async with self._change(key.org_id) as connection:
            await connection.execute(_RAISE_VERSION, key.org_id)
            return ApiKey(**await connection.fetchrow(_ADD_KEY, *row))

    async def revoke_key(self, key_id: str, org_id: str | None = None) -> ApiKey:
        """Revoke a key of that organization, or any (None), for ever.

        A key that is revoked already stays as it is.
        """
        async with self._transaction() as connection:
            found = await _key(connection, key_id, org_id)
            await connection.execute(_LOCK, found.org_id)
            revoked = await connection.fetchrow(_REVOKE_KEY, key_id)
            if revoked is None:
                return await _key(connection, key_id, org_id)
            await connection.execute(_RAISE_VERSION, found.org_id)
            return ApiKey(**revoked)

    async def limits_set(self, targets: Sequence[Target]) -> list[LimitsSet]:
        """Return what is set for each organization or agent, in the order of `targets`."""
        async with self._transaction() as connection:
            return await overrides.read(connection, targets)

    async def change_override(
        self,
        org_id: str,
        agent_id: str | None,
        change: OverrideChange,
        author: Author,
        expected_version: int | None = None,
    ) -> tuple[Override, LimitsSet]:
        """Change what is set for an organization or agent, and record who did it.

        Returns what was set before, and what is set now. Where these are equal, nothing is written.
        Raises Conflict where the organization is not at the version that is expected, if any is.
        """
        async with self._change(org_id) as connection:
            before, after = await overrides.change(connection, org_id, agent_id, change, author)
            if expected_version is not None:  # after what may not be there: it is rolled back
                await _expect(connection, org_id, expected_version)
            if before != after:
                await connection.execute(_RAISE_VERSION, org_id)
            (now,) = await overrides.read(connection, [(org_id, agent_id)])
        return before, now

    async def limit_changes_page(
        self, org_id: str, after: int | None, first: int
    ) -> list[LimitChange]:
        async with self._existing(org_id) as connection:
            return await pages.changes(connection, org_id, after, first)

    async def versions(self) -> dict[str, int]:
        """Return the version of every organization, by its id."""
        async with self._transaction() as connection:
            return await snapshot.versions(connection)

    async def load(self, org_ids: Collection[str] | None) -> list[OrganizationConfig]:
        """Read what a gateway must know of these organizations, or of all of them (None).

        All is of one moment. An organization that does not exist is left out.
        """
        async with self._transaction(
            LOADS_S, isolation="repeatable_read", readonly=True
        ) as connection:
            return await snapshot.load(connection, org_ids)

    @asynccontextmanager
    async def _transaction(
        self, within_s: float = ANSWERS_S, **options: object
    ) -> AsyncIterator[asyncpg.Connection]:
        async with borrowed(self._pool, within_s) as connection, connection.transaction(**options):
            yield connection

    @asynccontextmanager
    async def _existing(self, org_id: str) -> AsyncIterator[asyncpg.Connection]:
        """Open a transaction, once it is known that the organization exists."""
        async with self._transaction() as connection:
            if not await connection.fetchval(_EXISTS, org_id):
                raise NotFound("organization", org_id)
            yield connection

    @asynccontextmanager
    async def _change(self, org_id: str | None) -> AsyncIterator[asyncpg.Connection]:
        """Open a transaction that holds the organization (None: there is none to hold)."""
        async with self._transaction() as connection:
            if org_id is not None and not await connection.fetchval(_LOCK, org_id):
                raise NotFound("organization", org_id)
            yield connection


async def _key(connection: asyncpg.Connection, key_id: str, org_id: str | None) -> ApiKey:
    row = await connection.fetchrow(_KEY, key_id, org_id)
    if row is None:
        raise NotFound("key", key_id)
    return ApiKey(**row)


async def _expect(connection: asyncpg.Connection, org_id: str, version: int) -> None:
    current = await connection.fetchval(_VERSION, org_id)
    if current != version:
        raise Conflict(f"the organization is at version {current} by now: read it again")

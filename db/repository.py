"""Organizations, agents, keys and limits in Postgres: queries in, frozen rows out.

Every method is one transaction. A change locks its organization first, so that changes of one
organization follow one another, and its version rises in the order in which they are committed.
The methods raise the errors of `db.errors`. Ids that are passed in must be UUIDs.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import asyncpg

from db import overrides, snapshot
from db.connection import connect
from db.errors import NotFound, mapped
from db.limits import Override, OverrideChange
from db.rows import Agent, ApiKey, Author, NewKey, Organization, OrganizationConfig, Overrides

__all__ = ["Repository", "connect"]

_CREATE_ORGANIZATION = """
    INSERT INTO ibex_core.organizations (name) VALUES ($1)
    RETURNING id::text, name, version, created_at
"""
_ORGANIZATIONS = """
    SELECT id::text, name, version, created_at
    FROM ibex_core.organizations ORDER BY created_at, id
"""
_CREATE_AGENT = """
    INSERT INTO ibex_core.agents (org_id, name) VALUES ($1, $2)
    RETURNING id::text, org_id::text, name, created_at
"""
_AGENTS = """
    SELECT id::text, org_id::text, name, created_at
    FROM ibex_core.agents WHERE org_id = $1 ORDER BY created_at, id
"""
_AGENT = "SELECT id::text, org_id::text, name, created_at FROM ibex_core.agents WHERE id = $1"
_ADD_KEY = """
    INSERT INTO ibex_core.api_keys (role, org_id, agent_id, digest, prefix, name)
    VALUES ($1, $2, $3, $4, $5, $6)
    RETURNING id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
"""
_KEY = """
    SELECT id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
    FROM ibex_core.api_keys WHERE id = $1
"""
_REVOKE_KEY = """
    UPDATE ibex_core.api_keys SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL
    RETURNING id::text, role, org_id::text, agent_id::text, prefix, name, created_at, revoked_at
"""
_EXISTS = "SELECT true FROM ibex_core.organizations WHERE id = $1"
_LOCK = "SELECT true FROM ibex_core.organizations WHERE id = $1 FOR NO KEY UPDATE"
_RAISE_VERSION = "UPDATE ibex_core.organizations SET version = version + 1 WHERE id = $1"


class Repository:
    """What Ibex knows, over a pool from `connect`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

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

    async def agents(self, org_id: str) -> list[Agent]:
        async with self._transaction() as connection:
            if not await connection.fetchval(_EXISTS, org_id):
                raise NotFound("organization", org_id)
            return [Agent(**row) for row in await connection.fetch(_AGENTS, org_id)]

    async def agent(self, agent_id: str) -> Agent:
        async with self._transaction() as connection:
            row = await connection.fetchrow(_AGENT, agent_id)
        if row is None:
            raise NotFound("agent", agent_id)
        return Agent(**row)

    async def add_key(self, key: NewKey) -> ApiKey:
        """Store a key. The agent of an agent's key must exist, and be the organization's."""
        row = (key.role, key.org_id, key.agent_id, key.digest, key.prefix, key.name)
        async with self._change(key.org_id) as connection:
            await connection.execute(_RAISE_VERSION, key.org_id)
            return ApiKey(**await connection.fetchrow(_ADD_KEY, *row))

    async def revoke_key(self, key_id: str) -> ApiKey:
        """Revoke a key for ever. A key that is revoked already stays as it is."""
        async with self._transaction() as connection:
            found = await connection.fetchrow(_KEY, key_id)
            if found is None:
                raise NotFound("key", key_id)
            await connection.execute(_LOCK, found["org_id"])
            revoked = await connection.fetchrow(_REVOKE_KEY, key_id)
            if revoked is None:
                return ApiKey(**await connection.fetchrow(_KEY, key_id))
            await connection.execute(_RAISE_VERSION, found["org_id"])
            return ApiKey(**revoked)

    async def overrides(self, org_id: str, agent_id: str | None) -> Overrides:
        """Return what is set for an organization, and for one of its agents if one is named."""
        async with self._transaction() as connection:
            if not await connection.fetchval(_EXISTS, org_id):
                raise NotFound("organization", org_id)
            return await overrides.read(connection, org_id, agent_id)

    async def change_override(
        self, org_id: str, agent_id: str | None, change: OverrideChange, author: Author
    ) -> tuple[Override, Override]:
        """Change what is set for an organization or agent, and record who did it.

        Returns what was set before and what is set now. Where these are equal, nothing is written.
        """
        async with self._change(org_id) as connection:
            before, after = await overrides.change(connection, org_id, agent_id, change, author)
            if before != after:
                await connection.execute(_RAISE_VERSION, org_id)
        return before, after

    async def versions(self) -> dict[str, int]:
        """Return the version of every organization, by its id."""
        async with self._transaction() as connection:
            return await snapshot.versions(connection)

    async def load(self, org_ids: Collection[str] | None) -> list[OrganizationConfig]:
        """Read what a gateway must know of these organizations, or of all of them (None).

        All is of one moment. An organization that does not exist is left out.
        """
        async with self._transaction(isolation="repeatable_read", readonly=True) as connection:
            return await snapshot.load(connection, org_ids)

    @asynccontextmanager
    async def _transaction(self, **options: object) -> AsyncIterator[asyncpg.Connection]:
        with mapped():
            async with self._pool.acquire() as connection, connection.transaction(**options):
                yield connection

    @asynccontextmanager
    async def _change(self, org_id: str | None) -> AsyncIterator[asyncpg.Connection]:
        """Open a transaction that holds the organization (None: there is none to hold)."""
        async with self._transaction() as connection:
            if org_id is not None and not await connection.fetchval(_LOCK, org_id):
                raise NotFound("organization", org_id)
            yield connection

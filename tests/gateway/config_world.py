"""What operators have set up in Postgres, and watchers of it as gateways have them."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
from redis.asyncio import Redis
from waiting import comes_true

from db.api_keys import Role
from db.limits import Limits, OverrideChange
from db.repository import Repository
from db.rows import Author, NewKey, OrganizationConfig
from gateway.config import Config
from lua import keys
from lua.channel import changes

NEVER_S = 60.0
"""A poll that no test waits for."""
AUTHOR = Author("test", "cli")
DEFAULTS = Limits(agent_rpm=10, org_rpm=20, global_rpm=30, org_tokens_per_month=40)
Changes = Callable[[], AsyncGenerator[str | None, None]]


class Counting(Repository):
    """The repository, and how often it was asked to load something."""

    loads = 0

    async def load(self, org_ids: Collection[str] | None) -> list[OrganizationConfig]:
        self.loads += 1
        return await super().load(org_ids)


class World:
    """What operators have set up, and what a gateway knows of it."""

    def __init__(self, pool: asyncpg.Pool, redis: Redis) -> None:
        self.pool = pool
        self.redis = redis
        self.repository = Counting(pool)

    @asynccontextmanager
    async def config(
        self, changes: Changes | None = None, *, poll_s: float = NEVER_S
    ) -> AsyncIterator[Config]:
        """A watcher that has started and hears changes."""
        config = Config(self.repository, DEFAULTS, changes or self.changes, poll_s=poll_s)
        await config.start()
        try:
            assert await comes_true(lambda: config.subscribed)
            yield config
        finally:
            await config.stop()

    def changes(self) -> AsyncGenerator[str | None, None]:
        return changes(self.redis)

    async def agent(self, org_id: str | None = None) -> tuple[str, str, bytes]:
        """An agent with a key, of a new organization by default: its ids, and the key's digest."""
        org_id = org_id or (await self.repository.create_organization("Acme")).id
        agent = await self.repository.create_agent(org_id, "bot")
        digest = uuid4().bytes + uuid4().bytes
        await self.repository.add_key(
            NewKey(Role.AGENT, org_id, agent.id, digest, "ibex_agt_Ab3d", "")
        )
        return org_id, agent.id, digest

    async def limit(self, org_id: str, rpm: int | None) -> None:
        await self.repository.change_override(org_id, None, OverrideChange(rpm), AUTHOR)

    async def publish(self, text: str) -> None:
        """To gateways; usually an organization's id."""
        await self.redis.publish(keys.config_channel(text), "changed")


def org_rpm(config: Config, digest: bytes) -> int | None:
    return config.snapshot.callers[digest].subject.org_rpm

"""Two organizations and everybody who operates them, for tests of the management API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import asyncpg

from db.api_keys import Role, digest
from db.limits import Limits, OverrideChange
from db.repository import Repository
from graphql_api.management import Management
from graphql_api.model import Changed, RateLimits, Viewer
from graphql_api.service import Service
from lua.connection import RedisAddress, connect
from lua.usage import LiveNumbers

DEFAULTS = Limits(agent_rpm=60, org_rpm=600, global_rpm=6000, org_tokens_per_month=1_000_000)
NOWHERE = str(uuid4())
"""An id that nothing has."""


class Channel:
    """Stands where gateways are told: remembers organizations, and can be cut off."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.connected = True

    async def publish(self, org_id: str) -> bool:
        if self.connected:
            self.published.append(org_id)
        return self.connected


@dataclass(frozen=True)
class Tenant:
    """An organization with an agent, and a key of each role by its secret."""

    id: str
    agent_id: str
    admin: Viewer
    read_only: Viewer
    secrets: dict[Role, str]
    key_ids: dict[Role, str]


@dataclass(frozen=True)
class World:
    """The management of `ours` and `theirs`, and what it publishes."""

    management: Management
    repository: Repository
    channel: Channel
    ours: Tenant
    theirs: Tenant
    platform: Viewer
    platform_key: str


async def tenant(service: Service, repository: Repository, name: str) -> Tenant:
    """An organization with an agent and a key of each role."""
    org = await service.create_organization(name)
    agent = (await service.create_agent(org.id, f"{name}'s agent")).value
    secrets, key_ids, viewers = {}, {}, {}
    for role in (Role.ADMIN, Role.READ_ONLY):
        issued = (await service.issue_operator_key(org.id, role, f"{name} {role}")).value
        secrets[role], key_ids[role] = issued.key, issued.id
        viewers[role] = await viewer(repository, issued.key)
    agent_key = (await service.issue_agent_key(agent.id)).value
    secrets[Role.AGENT], key_ids[Role.AGENT] = agent_key.key, agent_key.id
    admin, read_only = viewers[Role.ADMIN], viewers[Role.READ_ONLY]
    return Tenant(org.id, agent.id, admin, read_only, secrets, key_ids)


async def viewer(repository: Repository, secret: str) -> Viewer:
    """Who holds that operator's key."""
    row = await repository.operator_key(digest(secret))
    assert row is not None
    return Viewer(row.id, row.name, Role(row.role), row.org_id)


@asynccontextmanager
async def world(
    pool: asyncpg.Pool, redis_url: str, defaults: Limits = DEFAULTS
) -> AsyncIterator[World]:
    """Everything, on these servers."""
    channel = Channel()
    repository = Repository(pool)
    service = Service(repository, channel.publish)
    client = connect(RedisAddress(redis_url), timeout_s=2)
    platform_key = (await service.issue_platform_key("root")).value.key
    try:
        yield World(
            Management(repository, LiveNumbers(client), channel.publish, defaults),
            repository,
            channel,
            await tenant(service, repository, "Ours"),
            await tenant(service, repository, "Theirs"),
            await viewer(repository, platform_key),
            platform_key,
        )
    finally:
        await client.aclose()


async def update(
    world: World,
    agent_id: str | None,
    change: OverrideChange,
    expected_version: int | None = None,
) -> Changed[RateLimits]:
    """Change limits of ours, as its admin does by GraphQL."""
    return await world.management.update_rate_limits(
        world.ours.admin, world.ours.id, agent_id, change,
        expected_version=expected_version, via="graphql",
    )  # fmt: skip

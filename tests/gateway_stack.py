"""A gateway with the servers behind it, and tenants that are provisioned on it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from gateway_process import GatewayProcess
from msgspec import UNSET, UnsetType
from servers import RedisServer, run_apart

from db.limits import OverrideChange
from db.repository import Repository, connect
from graphql_api.service import Service
from lua.channel import publish
from lua.connection import RedisAddress

T = TypeVar("T")
Limit = int | None | UnsetType


@dataclass(frozen=True)
class Agent:
    """An agent and its key."""

    id: str
    key: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@dataclass(frozen=True)
class Tenant:
    """An organization with its agents."""

    id: str
    agents: tuple[Agent, ...]

    @property
    def agent(self) -> Agent:
        return self.agents[0]


class Tenants:
    """Provisioning by the functions that the CLI and the API use; blocking."""

    def __init__(self, database_url: str, redis_url: str) -> None:
        self._database_url = database_url
        self._address = RedisAddress(redis_url)

    def create(
        self, *, org_rpm: Limit = UNSET, agent_rpm: Limit = UNSET, tokens: Limit = UNSET,
        agents: int = 1,
    ) -> Tenant:  # fmt: skip
        """An organization with these limits; `agent_rpm` is set for each of its agents."""

        async def provision(service: Service) -> Tenant:
            org = await service.create_organization("Test")
            found = []
            for number in range(agents):
                agent = (await service.create_agent(org.id, f"agent {number}")).value
                await _limit(service, org.id, agent.id, OverrideChange(agent_rpm, UNSET))
                key = (await service.issue_agent_key(agent.id)).value
                found.append(Agent(agent.id, key.key))
            await _limit(service, org.id, None, OverrideChange(org_rpm, tokens))
            return Tenant(org.id, tuple(found))

        return self.run(provision)

    def limit(
        self, tenant: Tenant, agent: Agent | None = None, *, rpm: Limit = UNSET,
        tokens: Limit = UNSET,
    ) -> None:  # fmt: skip
        """Change a limit, as an operator does."""
        agent_id = agent.id if agent else None
        self.run(lambda s: _limit(s, tenant.id, agent_id, OverrideChange(rpm, tokens)))

    def run(self, use_case: Callable[[Service], Awaitable[T]]) -> T:
        """Any use case; returns what it returns."""

        async def go() -> T:
            pool = await connect(self._database_url, min_size=1, max_size=1)
            try:
                service = Service(Repository(pool), lambda org_id: publish(self._address, org_id))
                return await use_case(service)
            finally:
                await pool.close()

        return run_apart(go)


async def _limit(
    service: Service, org_id: str, agent_id: str | None, change: OverrideChange
) -> None:
    await service.update_limits(org_id, agent_id, change, "test", "cli")


@dataclass(frozen=True)
class Stack:
    """A gateway and the servers behind it."""

    gateway: GatewayProcess
    redis: RedisServer
    tenants: Tenants
    database_url: str

    @property
    def url(self) -> str:
        return self.gateway.url


StartGateway = Callable[..., Stack]

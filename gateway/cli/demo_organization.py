"""The organization that `ibex dev` gives to a newcomer: two agents, limits, a key for each role.

Keys are hashed in the database, so `dev.json` is what keeps them between runs. What it does not
know any more is issued anew.
"""

import msgspec

from db.api_keys import Role, digest
from db.limits import OverrideChange
from db.migrate import migrate
from db.repository import Repository, connect
from graphql_api.service import Service

ORGANIZATION = "Demo"
AGENTS = ("support", "batch")
AGENT_RPM = 60
ORGANIZATION_RPM = 100
TOKENS_PER_MONTH = 2_000_000  # about half a day of the demo's agents
AUTHOR = "cli:ibex dev"
KEY_NAME = "ibex dev"


class DemoAgent(msgspec.Struct, frozen=True):
    """An agent of `dev.json`."""

    id: str
    name: str
    key: str

    def __repr__(self) -> str:
        return f"DemoAgent({self.name})"


class DemoOrganization(msgspec.Struct, frozen=True):
    """The part of `dev.json` that is kept from run to run."""

    organization_id: str
    agents: list[DemoAgent]
    admin_key: str
    read_only_key: str
    platform_key: str

    def __repr__(self) -> str:
        return f"DemoOrganization({self.organization_id})"


async def provision(database_url: str, known: DemoOrganization | None) -> DemoOrganization:
    """Migrate, and create what is missing of the organization. `known`: as of the last run.

    Raises:
        DatabaseError: Postgres is not there, or a migration failed.
    """
    await migrate(database_url)
    pool = await connect(database_url, min_size=1, max_size=1)
    try:
        return await _complete(Repository(pool), known)
    finally:
        await pool.close()


async def _complete(repository: Repository, known: DemoOrganization | None) -> DemoOrganization:
    service = Service(repository, _nobody_to_tell)
    org_id = await _organization(service)
    agents = await _agents(service, org_id, await _live(repository, org_id, known))
    if known and known.organization_id == org_id:
        return msgspec.structs.replace(known, agents=agents)
    admin = await service.issue_operator_key(org_id, Role.ADMIN, KEY_NAME)
    read_only = await service.issue_operator_key(org_id, Role.READ_ONLY, KEY_NAME)
    platform = await service.issue_platform_key(KEY_NAME)
    return DemoOrganization(
        org_id, agents, admin.value.key, read_only.value.key, platform.value.key
    )


async def _organization(service: Service) -> str:
    for organization in await service.list_organizations():
        if organization.name == ORGANIZATION:
            return organization.id
    org_id = (await service.create_organization(ORGANIZATION)).id
    limits = OverrideChange(requests_per_minute=ORGANIZATION_RPM, tokens_per_month=TOKENS_PER_MONTH)
    await service.update_limits(org_id, None, limits, AUTHOR, "cli")
    return org_id


async def _live(
    repository: Repository, org_id: str, known: DemoOrganization | None
) -> dict[str, str]:
    """The known keys of agents that the gateway will accept, by the agents' ids."""
    (config,) = await repository.load([org_id])
    digests = {key.digest for key in config.keys}
    agents = known.agents if known else []
    return {agent.id: agent.key for agent in agents if digest(agent.key) in digests}


async def _agents(service: Service, org_id: str, keys: dict[str, str]) -> list[DemoAgent]:
    ids = {agent.name: agent.id for agent in await service.list_agents(org_id)}
    agents = []
    for name in AGENTS:
        id_ = ids.get(name) or await _create_agent(service, org_id, name)
        key = keys.get(id_) or (await service.issue_agent_key(id_, KEY_NAME)).value.key
        agents.append(DemoAgent(id_, name, key))
    return agents


async def _create_agent(service: Service, org_id: str, name: str) -> str:
    agent_id = (await service.create_agent(org_id, name)).value.id
    limits = OverrideChange(requests_per_minute=AGENT_RPM)
    await service.update_limits(org_id, agent_id, limits, AUTHOR, "cli")
    return agent_id


async def _nobody_to_tell(_org_id: str) -> bool:
    """The gateway is started afterwards and reads everything then."""
    return True

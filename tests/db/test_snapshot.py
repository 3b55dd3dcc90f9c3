import asyncio
from uuid import uuid4

import asyncpg

from db import snapshot
from db.api_keys import Role
from db.limits import INHERIT, Override, OverrideChange
from db.repository import Repository
from db.rows import AgentConfig, Author, KeyConfig, NewKey, OrganizationConfig

AUTHOR = Author("cli:test", "cli")


async def add_key(
    repository: Repository, role: Role, org_id: str | None, agent_id: str | None
) -> KeyConfig:
    digest = uuid4().bytes + uuid4().bytes
    key = await repository.add_key(NewKey(role, org_id, agent_id, digest, "ibex_agt_Ab3d", ""))
    return KeyConfig(key.id, digest, agent_id or "")


async def test_organization_is_loaded_with_live_agent_keys_only(repository: Repository) -> None:
    """Gateways get agents, limits and agents' keys; no operator's key, and no revoked one."""
    org_id = (await repository.create_organization("Acme")).id
    agent = await repository.create_agent(org_id, "bot")
    idle = await repository.create_agent(org_id, "idle")
    first = await add_key(repository, Role.AGENT, org_id, agent.id)
    second = await add_key(repository, Role.AGENT, org_id, agent.id)
    revoked = await add_key(repository, Role.AGENT, org_id, agent.id)
    await repository.revoke_key(revoked.id)
    for role, scope in ((Role.ADMIN, org_id), (Role.READ_ONLY, org_id), (Role.PLATFORM, None)):
        await add_key(repository, role, scope, None)
    await repository.change_override(org_id, None, OverrideChange(600, 0), AUTHOR)
    await repository.change_override(org_id, agent.id, OverrideChange(0), AUTHOR)

    (loaded,) = await repository.load(None)

    assert loaded.id == org_id
    assert loaded.version == (await repository.versions())[org_id]
    assert loaded.override == Override(600, 0)
    assert set(loaded.agents) == {
        AgentConfig(agent.id, "bot", Override(0)),
        AgentConfig(idle.id, "idle", INHERIT),
    }
    assert set(loaded.keys) == {first, second}


async def test_only_the_organizations_asked_for_are_loaded(repository: Repository) -> None:
    """None loads all, a choice loads these, and what does not exist is left out."""
    ids = [(await repository.create_organization(name)).id for name in ("a", "b", "c")]

    async def loaded(wanted: list[str] | None) -> set[str]:
        return {organization.id for organization in await repository.load(wanted)}

    assert await loaded(None) == set(ids)
    assert await loaded(ids[:2]) == set(ids[:2])
    assert await loaded([str(uuid4()), ids[2]]) == {ids[2]}
    assert await loaded([]) == set()


async def test_organization_without_agents_is_loaded_empty(repository: Repository) -> None:
    """A new organization is known to gateways, with nothing in it."""
    organization = await repository.create_organization("new")

    assert await repository.load([organization.id]) == [
        OrganizationConfig(organization.id, 1, INHERIT, (), ())
    ]


async def test_all_that_is_loaded_is_of_one_moment(repository: Repository) -> None:
    """While agents and keys come in, version and contents of every load belong together."""
    org_id = (await repository.create_organization("busy")).id

    async def grow() -> None:
        for number in range(40):
            agent = await repository.create_agent(org_id, f"bot {number}")
            await add_key(repository, Role.AGENT, org_id, agent.id)

    growing = [asyncio.create_task(grow()) for _ in range(2)]
    seen = set()
    while not all(task.done() for task in growing):
        (loaded,) = await repository.load([org_id])
        seen.add(loaded.version)
        assert loaded.version == 1 + len(loaded.agents) + len(loaded.keys)
        assert {key.agent_id for key in loaded.keys} <= {agent.id for agent in loaded.agents}
    await asyncio.gather(*growing)

    assert len(seen) > 5


async def test_number_of_queries_does_not_grow(repository: Repository, database_url: str) -> None:
    """Thirty organizations are loaded with as many queries as one."""
    ids = []
    for number in range(30):
        ids.append((await repository.create_organization(f"org {number}")).id)
        await repository.create_agent(ids[-1], "bot")
    connection = await asyncpg.connect(database_url)

    counts = []
    for wanted in (ids[:1], ids, None):
        queries: list[str] = []
        with connection.query_logger(lambda record, seen=queries: seen.append(record.query)):
            loaded = await snapshot.load(connection, wanted)
        assert len(loaded) == len(wanted or ids)
        counts.append(len(queries))
    await connection.close()

    assert counts == [3, 3, 3]

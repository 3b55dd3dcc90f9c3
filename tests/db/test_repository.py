import asyncio
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from db.api_keys import Role
from db.errors import DatabaseUnavailable, NotFound, NotMigrated, Refused
from db.limits import INHERIT, MAX_LIMIT, Override, OverrideChange
from db.repository import Repository, connect
from db.rows import Author, NewKey

AUTHOR = Author("cli:test", "cli")


def new_key(role: Role, org_id: str | None, agent_id: str | None) -> NewKey:
    return NewKey(role, org_id, agent_id, uuid4().bytes + uuid4().bytes, "ibex_agt_Ab3d", "")


async def test_ids_are_lowercase_uuid_strings(repository: Repository) -> None:
    """What the database keeps as UUIDs leaves this package as strings, nothing else."""
    organization = await repository.create_organization("Acme")
    agent = await repository.create_agent(organization.id, "bot")
    key = await repository.add_key(new_key(Role.AGENT, organization.id, agent.id))

    for id_ in (organization.id, agent.id, agent.org_id, key.id, key.org_id, key.agent_id):
        assert type(id_) is str
        assert id_ == id_.lower()


async def test_rows_come_back_as_they_were_stored(repository: Repository) -> None:
    """Organizations and agents are listed as created, the oldest first, each with its own."""
    first = await repository.create_organization("First")
    second = await repository.create_organization("Второй 🙂")
    agents = [await repository.create_agent(first.id, name) for name in ("b", "a")]
    await repository.create_agent(second.id, "other")

    assert await repository.organizations() == [
        await _as_now(repository, first.id),
        await _as_now(repository, second.id),
    ]
    assert await repository.agents(first.id) == agents
    assert await repository.agent(agents[0].id) == agents[0]


async def _as_now(repository: Repository, org_id: str) -> Any:
    (found,) = [row for row in await repository.organizations() if row.id == org_id]
    assert found.version == (await repository.versions())[org_id]
    return found


async def test_every_change_raises_the_version_by_one(repository: Repository) -> None:
    """Agents, keys, revocations and limits each count, and only for their organization."""
    changed = await repository.create_organization("changed")
    quiet = await repository.create_organization("quiet")
    seen = [changed.version]

    async def note() -> None:
        seen.append((await repository.versions())[changed.id])

    agent = await repository.create_agent(changed.id, "bot")
    await note()
    key = await repository.add_key(new_key(Role.AGENT, changed.id, agent.id))
    await note()
    await repository.revoke_key(key.id)
    await note()
    await repository.change_override(changed.id, None, OverrideChange(1, 2), AUTHOR)
    await note()
    await repository.change_override(changed.id, agent.id, OverrideChange(3), AUTHOR)
    await note()

    assert seen == [1, 2, 3, 4, 5, 6]
    assert (await repository.versions())[quiet.id] == 1


async def test_what_changes_nothing_leaves_the_version(repository: Repository) -> None:
    """Setting a limit to what it is, and revoking twice, are no changes."""
    organization = await repository.create_organization("Acme")
    key = await repository.add_key(new_key(Role.ADMIN, organization.id, None))
    await repository.change_override(organization.id, None, OverrideChange(5), AUTHOR)
    revoked = await repository.revoke_key(key.id)
    before = await repository.versions()

    await repository.change_override(organization.id, None, OverrideChange(5), AUTHOR)
    await repository.change_override(organization.id, None, OverrideChange(), AUTHOR)
    again = await repository.revoke_key(key.id)

    assert again == revoked
    assert await repository.versions() == before


async def test_what_is_not_there_is_not_found(repository: Repository) -> None:
    """Each use of an unknown id says which kind of thing is missing."""
    nowhere = str(uuid4())
    for use, what in (
        (repository.create_agent(nowhere, "bot"), "organization"),
        (repository.agents(nowhere), "organization"),
        (repository.agent(nowhere), "agent"),
        (repository.add_key(new_key(Role.ADMIN, nowhere, None)), "organization"),
        (repository.revoke_key(nowhere), "key"),
        (repository.limits_set([(nowhere, None)]), "organization"),
        (repository.change_override(nowhere, None, OverrideChange(1), AUTHOR), "organization"),
    ):
        with pytest.raises(NotFound) as error:
            await use

        assert (error.value.what, error.value.id) == (what, nowhere)


async def test_agent_of_another_organization_is_not_found(repository: Repository) -> None:
    """Limits of an agent can be neither read nor set through another organization."""
    mine = await repository.create_organization("mine")
    theirs = await repository.create_organization("theirs")
    agent = await repository.create_agent(theirs.id, "bot")

    with pytest.raises(NotFound, match=agent.id):
        await repository.limits_set([(mine.id, agent.id)])
    with pytest.raises(NotFound, match=agent.id):
        await repository.change_override(mine.id, agent.id, OverrideChange(1), AUTHOR)
    (unchanged,) = await repository.limits_set([(theirs.id, agent.id)])
    assert unchanged.overrides.agent == INHERIT


async def test_changes_at_once_leave_one_row_and_an_unbroken_record(
    repository: Repository, pool: asyncpg.Pool
) -> None:
    """Many clients set the same two limits: one row each, and every change follows the last."""
    organization = await repository.create_organization("Acme")
    agent = await repository.create_agent(organization.id, "bot")

    await asyncio.gather(
        *(
            repository.change_override(organization.id, target, OverrideChange(value), AUTHOR)
            for value in range(20)
            for target in (None, agent.id)
        )
    )

    rows = await pool.fetch("SELECT agent_id FROM ibex_core.rate_limit_overrides")
    assert sorted(str(row["agent_id"]) for row in rows) == sorted(["None", agent.id])
    assert (await repository.versions())[organization.id] == 2 + 40
    for target in (None, agent.id):
        record = await pool.fetch(
            "SELECT old, new FROM ibex_core.rate_limit_changes "
            "WHERE agent_id IS NOT DISTINCT FROM $1 ORDER BY id",
            target,
        )
        assert [row["old"] for row in record] == [None, *(row["new"] for row in record[:-1])]
        assert sorted(row["new"] for row in record) == list(range(20))


async def test_record_names_author_field_and_both_values(
    repository: Repository, pool: asyncpg.Pool
) -> None:
    """One entry for each limit that changed, with who did it, and NULL for inherited."""
    organization = await repository.create_organization("Acme")

    for change in (OverrideChange(10, MAX_LIMIT), OverrideChange(10, None)):
        await repository.change_override(organization.id, None, change, Author("key:7 ops", "rest"))

    record = await pool.fetch(
        "SELECT org_id::text, agent_id, actor, via, field, old, new "
        "FROM ibex_core.rate_limit_changes ORDER BY id"
    )
    author = (organization.id, None, "key:7 ops", "rest")
    assert [tuple(row) for row in record] == [
        (*author, "requests_per_minute", None, 10),
        (*author, "tokens_per_month", None, MAX_LIMIT),
        (*author, "tokens_per_month", MAX_LIMIT, None),
    ]


async def test_nothing_is_left_of_a_change_that_failed(
    repository: Repository, pool: asyncpg.Pool
) -> None:
    """Limits, version and record are written together or not at all."""
    organization = await repository.create_organization("Acme")
    await repository.change_override(organization.id, None, OverrideChange(1), AUTHOR)
    versions = await repository.versions()

    with pytest.raises(Refused, match="rate_limit_changes_actor_length"):
        await repository.change_override(
            organization.id, None, OverrideChange(2), Author("", "cli")
        )

    (unchanged,) = await repository.limits_set([(organization.id, None)])
    assert unchanged.overrides.org == Override(1)
    assert await repository.versions() == versions
    assert await pool.fetchval("SELECT count(*) FROM ibex_core.rate_limit_changes") == 1


async def test_key_of_another_organizations_agent_is_refused(repository: Repository) -> None:
    """A key cannot join an agent to an organization that it does not belong to."""
    mine = await repository.create_organization("mine")
    theirs = await repository.create_organization("theirs")
    agent = await repository.create_agent(theirs.id, "bot")

    with pytest.raises(Refused, match="api_keys_agent"):
        await repository.add_key(new_key(Role.AGENT, mine.id, agent.id))

    assert (await repository.versions())[mine.id] == 1


async def test_database_without_the_schema_says_what_to_run(database_url: str) -> None:
    """On a database that nobody migrated, every use names the command that mends it."""
    pool = await connect(database_url, min_size=0, max_size=1)

    with pytest.raises(NotMigrated, match="ibex migrate"):
        await Repository(pool).versions()

    await pool.close()


async def test_lost_connections_are_replaced(
    repository: Repository, pool: asyncpg.Pool, database_url: str
) -> None:
    """After the server cut every connection, the pool serves again without a restart."""
    await asyncio.gather(*(repository.versions() for _ in range(8)))
    other = await asyncpg.connect(database_url)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await other.close()

    async with asyncio.timeout(10):
        while True:
            try:
                assert await repository.versions() == {}
                break
            except DatabaseUnavailable:
                continue
    assert pool.get_size() >= 1


async def test_read_only_server_is_unavailable_to_changes_only(
    database_url: str, repository: Repository
) -> None:
    """On a standby, reads go on and changes say that Postgres is not available."""
    organization = await repository.create_organization("Acme")
    pool = await connect(f"{database_url}?default_transaction_read_only=on", min_size=1, max_size=1)
    standby = Repository(pool)

    assert await standby.versions() == {organization.id: 1}
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        await standby.create_agent(organization.id, "bot")

    await pool.close()

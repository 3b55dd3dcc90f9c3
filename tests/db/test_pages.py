"""Lists a page at a time, confined to one organization."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from db.api_keys import Role
from db.errors import Conflict, NotFound
from db.limits import INHERIT, Override, OverrideChange
from db.repository import Repository
from db.rows import Author, NewKey

AUTHOR = Author("key:7 ops", "rest")
NOWHERE = str(uuid4())


async def key_of(repository: Repository, org_id: str) -> str:
    new = NewKey(Role.ADMIN, org_id, None, uuid4().bytes * 2, "ibex_adm_Ab3d", "")
    return (await repository.add_key(new)).id


async def agent_of(repository: Repository, org_id: str) -> str:
    return (await repository.create_agent(org_id, "bot")).id


Create = Callable[[Repository, str], Awaitable[str]]
Read = Callable[[Repository, str, Any, int], Awaitable[list[Any]]]
LISTS: dict[str, tuple[Create, Read]] = {
    "agents": (agent_of, lambda r, org, after, first: r.agents_page(org, after, first)),
    "keys": (key_of, lambda r, org, after, first: r.keys_page(org, after, first)),
}


@pytest.mark.parametrize("name", LISTS)
async def test_rows_created_in_the_same_moment_are_all_shown_once(
    repository: Repository, pool: asyncpg.Pool, name: str
) -> None:
    """Where the time decides nothing the id does, and a page begins right after the last row."""
    create, read = LISTS[name]
    org = await repository.create_organization("Acme")
    ids = {await create(repository, org.id) for _ in range(5)}
    table = {"agents": "agents", "keys": "api_keys"}[name]
    await pool.execute(f"UPDATE ibex_core.{table} SET created_at = now()")

    first = await read(repository, org.id, None, 3)
    rest = await read(repository, org.id, first[-1].id, 3)

    assert (len(first), len(rest)) == (3, 2)
    assert {row.id for row in first + rest} == ids


@pytest.mark.parametrize("name", LISTS)
async def test_lists_end_at_their_organization(repository: Repository, name: str) -> None:
    """Another organization's rows are not shown, and its row is no cursor of this list."""
    create, read = LISTS[name]
    mine = await repository.create_organization("mine")
    theirs = await repository.create_organization("theirs")
    foreign = await create(repository, theirs.id)
    own = await create(repository, mine.id)

    assert [row.id for row in await read(repository, mine.id, None, 9)] == [own]
    assert await read(repository, mine.id, foreign, 9) == []
    assert await read(repository, mine.id, NOWHERE, 9) == []
    with pytest.raises(NotFound, match=f"there is no organization {NOWHERE}"):
        await read(repository, NOWHERE, None, 9)


async def test_changes_are_listed_newest_first(repository: Repository) -> None:
    """Those of an organization and its agents, and of no other."""
    mine = await repository.create_organization("mine")
    theirs = await repository.create_organization("theirs")
    agent = await repository.create_agent(mine.id, "bot")
    for org_id, agent_id, rpm in ((mine.id, None, 1), (theirs.id, None, 2), (mine.id, agent.id, 3)):
        await repository.change_override(org_id, agent_id, OverrideChange(rpm), AUTHOR)

    newest, oldest = await repository.limit_changes_page(mine.id, None, 9)

    assert [(row.agent_id, row.old, row.new) for row in (newest, oldest)] == [
        (agent.id, None, 3), (None, None, 1)
    ]  # fmt: skip
    assert (newest.actor, newest.via, newest.org_id) == ("key:7 ops", "rest", mine.id)
    assert await repository.limit_changes_page(mine.id, newest.id, 9) == [oldest]
    assert await repository.limit_changes_page(mine.id, oldest.id, 9) == []


async def test_limits_of_many_are_read_in_their_order(repository: Repository) -> None:
    """Organizations and agents in one query, each with its version and its own last author."""
    mine = await repository.create_organization("mine")
    theirs = await repository.create_organization("theirs")
    agent = await repository.create_agent(mine.id, "bot")
    await repository.change_override(mine.id, None, OverrideChange(1, 2), AUTHOR)
    await repository.change_override(mine.id, agent.id, OverrideChange(3), Author("cli:x", "cli"))

    found = await repository.limits_set(
        [(theirs.id, None), (mine.id, agent.id), (mine.id, None), (mine.id, agent.id)]
    )

    assert [(row.org_id, row.agent_id, row.version, row.updated_by) for row in found] == [
        (theirs.id, None, 1, None),
        (mine.id, agent.id, 4, "cli:x"),
        (mine.id, None, 4, "key:7 ops"),
        (mine.id, agent.id, 4, "cli:x"),
    ]
    assert [(row.overrides.org, row.overrides.agent) for row in found[:3]] == [
        (INHERIT, INHERIT), (Override(1, 2), Override(3)), (Override(1, 2), INHERIT)
    ]  # fmt: skip
    assert await repository.limits_set([]) == []


async def test_an_unexpected_version_changes_nothing(repository: Repository) -> None:
    """It is compared while the organization is held: of two writers at once, one is refused."""
    org = await repository.create_organization("Acme")
    await repository.change_override(org.id, None, OverrideChange(1), AUTHOR, 1)

    with pytest.raises(Conflict, match="at version 2 by now"):
        await repository.change_override(org.id, None, OverrideChange(5), AUTHOR, 1)

    (found,) = await repository.limits_set([(org.id, None)])
    assert (found.version, found.overrides.org) == (2, Override(1))


async def test_only_live_keys_of_operators_are_found_by_their_digest(
    repository: Repository,
) -> None:
    """Neither an agent's key nor a revoked one opens anything here."""
    org = await repository.create_organization("Acme")
    agent = await repository.create_agent(org.id, "bot")
    digests = {role: uuid4().bytes * 2 for role in Role}
    for role, digest in digests.items():
        scope = {
            Role.AGENT: (org.id, agent.id), Role.PLATFORM: (None, None)
        }.get(role, (org.id, None))  # fmt: skip
        stored = await repository.add_key(NewKey(role, *scope, digest, "ibex_x", ""))
        if role is Role.READ_ONLY:
            await repository.revoke_key(stored.id)

    found = {role: await repository.operator_key(digest) for role, digest in digests.items()}

    assert {role for role, key in found.items() if key} == {Role.ADMIN, Role.PLATFORM}
    assert await repository.operator_key(b"\0" * 32) is None


async def test_keys_are_looked_up_within_an_organization(repository: Repository) -> None:
    """A key of another organization is neither shown nor revoked."""
    mine = await repository.create_organization("mine")
    theirs = await repository.create_organization("theirs")
    foreign = await key_of(repository, theirs.id)

    for use in (repository.key(foreign, mine.id), repository.revoke_key(foreign, mine.id)):
        with pytest.raises(NotFound, match=f"there is no key {foreign}"):
            await use

    assert (await repository.key(foreign, theirs.id)).revoked_at is None
    assert (await repository.revoke_key(foreign)).revoked_at is not None

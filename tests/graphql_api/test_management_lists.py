"""Lists, keys, and what is created: on a real server. Who may: see test_isolation.py."""

from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest
from msgspec import structs
from operators import World, update

from db import api_keys
from db.api_keys import Role
from db.limits import OverrideChange
from graphql_api.errors import BadInput
from graphql_api.model import Page

Pages = Callable[[World, int, str | None], Coroutine[Any, Any, Page[Any]]]
PAGES: dict[str, Pages] = {
    "organizations": lambda w, n, c: w.management.organizations(w.platform, first=n, after=c),
    "agents": lambda w, n, c: w.management.agents(w.ours.admin, w.ours.id, first=n, after=c),
    "keys": lambda w, n, c: w.management.keys(w.ours.admin, w.ours.id, first=n, after=c),
    "changes": lambda w, n, c: w.management.changes(w.ours.admin, w.ours.id, first=n, after=c),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("first", [1, 2, 3])
async def test_pages_join_to_the_whole_list(operated: World, name: str, first: int) -> None:
    """Nothing is left out or shown twice between two pages, and the last one says that it is."""
    for number in range(3):
        await operated.management.create_organization(operated.platform, f"Org {number}")
        await operated.management.create_agent(operated.ours.admin, operated.ours.id, f"a{number}")
        await update(operated, None, OverrideChange(number))
    whole = await PAGES[name](operated, 500, None)
    assert (len(whole.items) >= 3, whole.next) == (True, None)

    collected: list[Any] = []
    cursor = None
    while True:
        page = await PAGES[name](operated, first, cursor)
        assert len(page.items) == min(first, len(whole.items) - len(collected))
        collected += page.items
        cursor = page.next
        if cursor is None:
            break

    assert tuple(collected) == whole.items


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("field", "first", "after"),
    [
        ("first", 0, None),
        ("first", -1, None),
        ("first", 501, None),
        ("first", True, None),
        ("first", "5", None),
        ("after", 5, "nope"),
        ("after", 5, ""),
        ("after", 5, "\x00"),
        ("after", 5, 7),
    ],
)
async def test_pages_out_of_bounds_name_the_field(
    operated: World, name: str, field: str, first: Any, after: Any
) -> None:
    """A page has 1 to 500 rows, and begins after a cursor of its list."""
    with pytest.raises(BadInput) as error:
        await PAGES[name](operated, first, after)

    assert error.value.field == field


async def test_keys_of_every_role_are_issued_and_listed_without_their_secret(
    operated: World, pool: asyncpg.Pool
) -> None:
    """The secret is in the answer once; lists and the database know its digest and prefix."""
    ours, issue = operated.ours, operated.management.issue_key
    issued = [
        await issue(ours.admin, role=Role.AGENT, organization_id=None, agent_id=ours.agent_id),
        await issue(ours.admin, role=Role.ADMIN, organization_id=ours.id, agent_id=None, name="x"),
        await issue(operated.platform, role=Role.PLATFORM, organization_id=None, agent_id=None),
    ]

    listed = (await operated.management.keys(ours.admin, ours.id)).items
    for changed in issued:
        key, secret = changed.value.key, changed.value.secret
        assert changed.published
        assert api_keys.well_formed(secret) is key.role
        assert secret.startswith(key.prefix)
        assert (key in listed) == (key.role is not Role.PLATFORM)
        assert secret not in repr(changed)
        stored = await pool.fetchval("SELECT digest FROM ibex_core.api_keys WHERE id = $1", key.id)
        assert stored == api_keys.digest(secret)
    assert operated.channel.published == [ours.id, ours.id]


async def test_a_revoked_key_stays_listed_as_revoked(operated: World) -> None:
    """Who looks later sees that it was, and since when; revoking again changes nothing."""
    ours, key_id = operated.ours, operated.ours.key_ids[Role.AGENT]

    revoked = await operated.management.revoke_key(ours.admin, key_id)
    again = await operated.management.revoke_key(ours.admin, key_id)

    assert revoked.published
    assert revoked.value.revoked_at is not None
    assert again.value == revoked.value
    assert revoked.value in (await operated.management.keys(ours.admin, ours.id)).items


async def test_an_agents_keys_are_its_own(operated: World) -> None:
    """All of them, the oldest first, revoked ones too; none of another agent or an operator."""
    ours, management = operated.ours, operated.management
    other = (await management.create_agent(ours.admin, ours.id, "other")).value
    made = {ours.agent_id: [ours.key_ids[Role.AGENT]], other.id: []}
    for agent_id in (other.id, ours.agent_id, other.id):
        issued = await management.issue_key(
            ours.admin, role=Role.AGENT, organization_id=None, agent_id=agent_id
        )
        made[agent_id].append(issued.value.key.id)
    revoked = (await management.revoke_key(ours.admin, made[other.id][0])).value

    for agent_id, key_ids in made.items():
        found = await management.agent_keys(ours.read_only, agent_id)
        assert [key.id for key in found] == key_ids
    assert revoked in await management.agent_keys(ours.admin, other.id)


async def test_what_was_created_is_found(operated: World) -> None:
    """By its id and in the lists; gateways are told of a new agent."""
    management, platform = operated.management, operated.platform
    org = await management.create_organization(platform, "New")
    agent = await management.create_agent(platform, org.id, "bot")

    assert await management.organization(platform, org.id) == structs.replace(org, version=2)
    assert await management.agent(platform, agent.value.id) == agent.value
    assert (await management.agents(platform, org.id)).items == (agent.value,)
    assert (agent.published, operated.channel.published) == (True, [org.id])

"""Who may do what to whom: every use case, for every viewer, on their own, another's, no one's."""

from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest
from operators import NOWHERE, Tenant, World

from db.api_keys import Role
from db.limits import OverrideChange
from graphql_api.errors import Forbidden, NotFound
from graphql_api.management import Management
from graphql_api.model import Viewer

UseCase = Callable[[Management, Viewer, Tenant], Coroutine[Any, Any, Any]]

NOBODY = Tenant(
    NOWHERE,
    NOWHERE,
    *[None, None],  # type: ignore[arg-type]  # nobody operates it
    secrets={},
    key_ids=dict.fromkeys(Role, NOWHERE),
)
CHANGE = OverrideChange(requests_per_minute=5)


async def update(management: Management, viewer: Viewer, org_id: str, agent_id: str | None) -> None:
    await management.update_rate_limits(
        viewer, org_id, agent_id, CHANGE, expected_version=None, via="rest"
    )


async def issue(
    management: Management, viewer: Viewer, role: Role, org_id: str | None, agent_id: str | None
) -> None:
    await management.issue_key(viewer, role=role, organization_id=org_id, agent_id=agent_id)


READS: dict[str, UseCase] = {
    "rate_limits of an organization": lambda m, v, t: m.rate_limits(v, t.id),
    "rate_limits of an agent": lambda m, v, t: m.rate_limits(v, t.id, t.agent_id),
    "rate_limits_of_agents": lambda m, v, t: m.rate_limits_of_agents(v, t.id, [t.agent_id]),
    "rate_limits_of": lambda m, v, t: m.rate_limits_of(v, [(t.id, None), (t.id, t.agent_id)]),
    "usage of an organization": lambda m, v, t: m.usage(v, organization_id=t.id),
    "usage of an agent": lambda m, v, t: m.usage(v, agent_id=t.agent_id),
    "history of an organization": lambda m, v, t: m.usage_history(v, organization_id=t.id),
    "history of an agent": lambda m, v, t: m.usage_history(v, agent_id=t.agent_id),
    "changes": lambda m, v, t: m.changes(v, t.id),
    "organization": lambda m, v, t: m.organization(v, t.id),
    "agent": lambda m, v, t: m.agent(v, t.agent_id),
    "agents": lambda m, v, t: m.agents(v, t.id),
    "keys": lambda m, v, t: m.keys(v, t.id),
    "limits_of": lambda m, v, t: m.limits_of(v, [(t.id, None), (t.id, t.agent_id)]),
    "ranked_agents": lambda m, v, t: m.ranked_agents(v, t.id),
    "agent_keys": lambda m, v, t: m.agent_keys(v, t.agent_id),
}
WRITES: dict[str, UseCase] = {
    "update an organization": lambda m, v, t: update(m, v, t.id, None),
    "update an agent": lambda m, v, t: update(m, v, t.id, t.agent_id),
    "create_agent": lambda m, v, t: m.create_agent(v, t.id, "new"),
    "issue an agent's key": lambda m, v, t: issue(m, v, Role.AGENT, None, t.agent_id),
    "issue an agent's key, both ids": lambda m, v, t: issue(m, v, Role.AGENT, t.id, t.agent_id),
    "issue an admin's key": lambda m, v, t: issue(m, v, Role.ADMIN, t.id, None),
    "issue a reader's key": lambda m, v, t: issue(m, v, Role.READ_ONLY, t.id, None),
    "revoke an agent's key": lambda m, v, t: m.revoke_key(v, t.key_ids[Role.AGENT]),
    "revoke an operator's key": lambda m, v, t: m.revoke_key(v, t.key_ids[Role.READ_ONLY]),
}
PLATFORM_ONLY: dict[str, UseCase] = {
    "create_organization": lambda m, v, _: m.create_organization(v, "New"),
    "usage of the platform": lambda m, v, _: m.usage(v),
    "numbers of the platform": lambda m, v, _: m.platform_numbers(v),
    "issue a platform key": lambda m, v, _: issue(m, v, Role.PLATFORM, None, None),
}
ALL = READS | WRITES


async def contents(pool: asyncpg.Pool) -> list[Any]:
    """Every row of every table."""
    tables = ("organizations", "agents", "api_keys", "rate_limit_overrides", "rate_limit_changes")
    return [await pool.fetch(f"SELECT * FROM ibex_core.{table} ORDER BY 1, 2") for table in tables]


async def refusal(call: Coroutine[Any, Any, Any], tenant: Tenant) -> str:
    """What the caller is told, with the ids that it sent itself taken out."""
    with pytest.raises(NotFound) as error:
        await call
    text = str(error.value)
    for id_ in (tenant.id, tenant.agent_id, *tenant.key_ids.values()):
        text = text.replace(id_, "ID")
    return text


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("role", [Role.ADMIN, Role.READ_ONLY])
async def test_api_iso_ratelimit_another_organization_looks_like_none(
    operated: World, pool: asyncpg.Pool, name: str, role: Role
) -> None:
    """Whatever is asked of another organization is refused as if it did not exist."""
    viewer = operated.ours.admin if role is Role.ADMIN else operated.ours.read_only
    before = await contents(pool)

    theirs = await refusal(ALL[name](operated.management, viewer, operated.theirs), operated.theirs)
    unknown = await refusal(ALL[name](operated.management, viewer, NOBODY), NOBODY)

    assert theirs == unknown
    assert (await contents(pool), operated.channel.published) == (before, [])


@pytest.mark.parametrize("name", ALL)
async def test_api_iso_ratelimit_what_does_not_exist_is_not_found_by_the_platform(
    operated: World, name: str
) -> None:
    """Platform operators see all there is, and nothing more."""
    with pytest.raises(NotFound):
        await ALL[name](operated.management, operated.platform, NOBODY)


@pytest.mark.parametrize("name", ALL)
async def test_api_iso_ratelimit_platform_operators_reach_every_organization(
    operated: World, name: str
) -> None:
    """What an admin may do to their own, platform operators may do to each."""
    await ALL[name](operated.management, operated.platform, operated.ours)
    await ALL[name](operated.management, operated.platform, operated.theirs)


@pytest.mark.parametrize("name", ALL)
async def test_api_iso_ratelimit_admins_reach_their_own(operated: World, name: str) -> None:
    """An admin reads and changes everything of their own organization."""
    await ALL[name](operated.management, operated.ours.admin, operated.ours)


@pytest.mark.parametrize("name", READS)
async def test_api_iso_ratelimit_readers_read_their_own(operated: World, name: str) -> None:
    """A read_only key reads what an admin reads."""
    await READS[name](operated.management, operated.ours.read_only, operated.ours)


@pytest.mark.parametrize("name", WRITES)
async def test_api_iso_ratelimit_readers_change_nothing(
    operated: World, pool: asyncpg.Pool, name: str
) -> None:
    """A read_only key is told that it may not, and nothing is written or published."""
    before = await contents(pool)

    with pytest.raises(Forbidden, match="only reads"):
        await WRITES[name](operated.management, operated.ours.read_only, operated.ours)

    assert (await contents(pool), operated.channel.published) == (before, [])


@pytest.mark.parametrize("name", PLATFORM_ONLY)
async def test_api_iso_ratelimit_the_platform_is_for_its_operators(
    operated: World, pool: asyncpg.Pool, name: str
) -> None:
    """What concerns all organizations is refused to the operators of one."""
    before = await contents(pool)
    for viewer in (operated.ours.admin, operated.ours.read_only):
        with pytest.raises(Forbidden, match="only platform operators"):
            await PLATFORM_ONLY[name](operated.management, viewer, operated.ours)
    assert await contents(pool) == before

    await PLATFORM_ONLY[name](operated.management, operated.platform, operated.ours)


@pytest.mark.parametrize("name", ["rate_limits_of", "update", "issue"])
async def test_api_iso_ratelimit_ids_of_two_organizations_do_not_mix(
    operated: World, name: str
) -> None:
    """Their agent is not found by way of our organization, nor by way of theirs."""
    calls: dict[str, Callable[[Viewer, str], Coroutine[Any, Any, Any]]] = {
        "rate_limits_of": lambda viewer, agent: operated.management.rate_limits_of(
            viewer, [(operated.ours.id, None), (operated.ours.id, agent)]
        ),
        "update": lambda viewer, agent: update(
            operated.management, viewer, operated.ours.id, agent
        ),
        "issue": lambda viewer, agent: issue(
            operated.management, viewer, Role.AGENT, operated.ours.id, agent
        ),
    }
    for viewer in (operated.ours.admin, operated.ours.read_only, operated.platform):
        for agent_id in (operated.theirs.agent_id, NOWHERE):
            with pytest.raises(NotFound, match=f"there is no agent {agent_id}"):
                await calls[name](viewer, agent_id)


async def test_api_iso_ratelimit_platform_keys_are_no_organizations(operated: World) -> None:
    """An admin cannot tell a platform key's id from one that does not exist."""
    with pytest.raises(NotFound, match=f"there is no key {operated.platform.key_id}"):
        await operated.management.revoke_key(operated.ours.admin, operated.platform.key_id)


async def test_api_iso_ratelimit_lists_end_at_the_organization(operated: World) -> None:
    """Operators list their own organization only; a cursor from another's list leads nowhere."""
    management, admin = operated.management, operated.ours.admin

    own = await management.organizations(admin)
    ranked = await management.ranked_organizations(admin)
    everything = await management.organizations(operated.platform)
    foreign = [
        (await management.agents(admin, operated.ours.id, after=operated.theirs.agent_id)).items,
        (await management.agents(admin, operated.ours.id, after=NOWHERE)).items,
    ]

    assert [org.id for org in own.items] == [operated.ours.id]
    assert ([row.organization.id for row in ranked.items], ranked.total) == ([operated.ours.id], 1)
    assert [org.id for org in everything.items] == [operated.ours.id, operated.theirs.id]
    assert foreign == [(), ()]

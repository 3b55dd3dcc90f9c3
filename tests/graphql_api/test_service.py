from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from db import api_keys
from db.api_keys import Role
from db.limits import INHERIT, Limits, Override, OverrideChange
from db.repository import Repository
from graphql_api.errors import BadInput, DatabaseUnavailable, NotFound
from graphql_api.limits_view import Level
from graphql_api.service import Outcome, Service

Change = Callable[[Service, str, str], Coroutine[Any, Any, Outcome[Any]]]
TABLES = ("organizations", "agents", "api_keys", "rate_limit_overrides", "rate_limit_changes")

CHANGES: list[Change] = [
    lambda service, org, _: service.create_agent(org, "bot"),
    lambda service, _, agent: service.issue_agent_key(agent),
    lambda service, org, _: service.issue_operator_key(org, Role.ADMIN),
    lambda service, org, _: service.update_limits(org, None, OverrideChange(1), "cli:t", "cli"),
    lambda service, org, agent: service.update_limits(
        org, agent, OverrideChange(1), "cli:t", "cli"
    ),
]


class Channel:
    """Stands where gateways are told: remembers organizations, and can be cut off."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.connected = True

    async def publish(self, org_id: str) -> bool:
        if self.connected:
            self.published.append(org_id)
        return self.connected


@pytest.fixture
def channel() -> Channel:
    """What was published."""
    return Channel()


@pytest.fixture
def service(repository: Repository, channel: Channel) -> Service:
    """The use cases, publishing to `channel`."""
    return Service(repository, channel.publish)


async def organization_with_agent(service: Service) -> tuple[str, str]:
    organization = await service.create_organization("Acme")
    return organization.id, (await service.create_agent(organization.id, "bot")).value.id


async def contents(pool: asyncpg.Pool) -> dict[str, list[Any]]:
    return {
        table: await pool.fetch(f"SELECT * FROM ibex_core.{table} ORDER BY 1, 2")
        for table in TABLES
    }


@pytest.mark.parametrize("change", CHANGES)
async def test_change_is_published_for_its_organization(
    service: Service, channel: Channel, change: Change
) -> None:
    """Gateways are told of new agents, keys and limits, once each."""
    org_id, agent_id = await organization_with_agent(service)
    channel.published.clear()

    outcome = await change(service, org_id, agent_id)

    assert outcome.published
    assert channel.published == [org_id]


@pytest.mark.parametrize("change", CHANGES)
async def test_change_stands_when_it_cannot_be_published(
    service: Service, channel: Channel, repository: Repository, change: Change
) -> None:
    """With Redis down a change is made all the same, and says that gateways were not told."""
    org_id, agent_id = await organization_with_agent(service)
    before = (await repository.versions())[org_id]
    channel.connected = False

    outcome = await change(service, org_id, agent_id)

    assert not outcome.published
    assert (await repository.versions())[org_id] == before + 1


async def test_change_is_in_the_database_when_it_is_published(repository: Repository) -> None:
    """Who is told of a change, and looks, finds it."""
    seen: list[int] = []

    async def look(org_id: str) -> bool:
        seen.append((await repository.versions())[org_id])
        return True

    service = Service(repository, look)
    org_id, _ = await organization_with_agent(service)
    await service.update_limits(org_id, None, OverrideChange(1), "cli:t", "cli")

    assert seen == [2, 3]


async def test_revoked_key_is_published_and_gone(
    service: Service, channel: Channel, repository: Repository
) -> None:
    """A revoked key is no longer given to gateways; the agent's other key is."""
    org_id, agent_id = await organization_with_agent(service)
    revoked = (await service.issue_agent_key(agent_id)).value
    kept = (await service.issue_agent_key(agent_id)).value
    channel.published.clear()

    outcome = await service.revoke_key(revoked.id)

    (config,) = await repository.load([org_id])
    assert [key.id for key in config.keys] == [kept.id]
    assert outcome.value.revoked_at is not None
    assert channel.published == [org_id]


async def test_issued_keys_are_stored_as_digest_only(service: Service, pool: asyncpg.Pool) -> None:
    """Each role's key is well formed, found by its SHA-256, and nowhere in the database itself."""
    org_id, agent_id = await organization_with_agent(service)
    issued = {
        Role.AGENT: await service.issue_agent_key(agent_id, "laptop"),
        Role.ADMIN: await service.issue_operator_key(org_id, Role.ADMIN, "laptop"),
        Role.READ_ONLY: await service.issue_operator_key(org_id, Role.READ_ONLY, "laptop"),
        Role.PLATFORM: await service.issue_platform_key("laptop"),
    }

    for role, outcome in issued.items():
        key = outcome.value
        row = await pool.fetchrow(
            "SELECT role, prefix, name FROM ibex_core.api_keys WHERE id = $1 AND digest = $2",
            key.id,
            api_keys.digest(key.key),
        )
        assert tuple(row) == (role, key.prefix, "laptop")
        assert api_keys.well_formed(key.key) is role
        assert key.key[-20:] not in str(await contents(pool))


async def test_secret_is_not_in_a_repr(service: Service) -> None:
    """A key that is logged by mistake with what carries it stays secret."""
    outcome = await service.issue_platform_key()

    assert outcome.value.key not in repr(outcome)
    assert outcome.value.prefix in repr(outcome)


async def test_platform_key_needs_no_publishing(service: Service, channel: Channel) -> None:
    """No gateway holds a platform key, so nobody has to be told, even with Redis down."""
    channel.connected = False

    issued = await service.issue_platform_key()
    revoked = await service.revoke_key(issued.value.id)

    assert (issued.published, revoked.published) == (True, True)


async def test_lists_show_what_was_created(service: Service) -> None:
    """Organizations and their agents are listed under the names that were given."""
    org_id, agent_id = await organization_with_agent(service)

    assert [(row.id, row.name) for row in await service.list_organizations()] == [(org_id, "Acme")]
    assert [(row.id, row.name) for row in await service.list_agents(org_id)] == [(agent_id, "bot")]


async def test_partial_updates_leave_the_rest(service: Service) -> None:
    """An absent limit stays, null inherits again, and an empty update changes nothing."""
    org_id, _ = await organization_with_agent(service)
    defaults = Limits(org_rpm=600, org_tokens_per_month=6)

    async def after(change: OverrideChange) -> Override:
        await service.update_limits(org_id, None, change, "cli:t", "cli")
        return (await service.read_limits(org_id, None, defaults)).override

    assert await after(OverrideChange(10, 100)) == Override(10, 100)
    assert await after(OverrideChange()) == Override(10, 100)
    assert await after(OverrideChange(requests_per_minute=0)) == Override(0, 100)
    assert await after(OverrideChange(tokens_per_month=None)) == Override(0, None)

    view = await service.read_limits(org_id, None, defaults)
    assert (view.limits.org_rpm, view.limits.org_tokens_per_month) == (0, 6)
    assert view.sources.org_tokens_per_month is Level.PLATFORM


async def test_update_tells_before_and_after(service: Service) -> None:
    """The outcome of an update is what was set, and what is set now."""
    org_id, agent_id = await organization_with_agent(service)

    outcome = await service.update_limits(org_id, agent_id, OverrideChange(7), "cli:t", "cli")

    assert outcome.value.before == INHERIT
    assert outcome.value.now.overrides.agent == Override(7)


async def test_update_that_changes_nothing_is_published_but_not_recorded(
    service: Service, channel: Channel, pool: asyncpg.Pool
) -> None:
    """An update that could not be published can be repeated until it is, without a trace."""
    org_id, _ = await organization_with_agent(service)
    await service.update_limits(org_id, None, OverrideChange(7), "cli:t", "cli")
    before = await contents(pool)
    channel.published.clear()

    outcome = await service.update_limits(org_id, None, OverrideChange(7), "cli:t", "cli")

    assert (outcome.published, channel.published) == (True, [org_id])
    assert await contents(pool) == before


async def test_ids_are_accepted_in_uppercase(service: Service, channel: Channel) -> None:
    """An id in capitals is the same organization, in the database and on the channel."""
    org_id, agent_id = await organization_with_agent(service)

    await service.update_limits(org_id.upper(), agent_id.upper(), OverrideChange(7), "cli:t", "cli")

    assert channel.published[-1] == org_id
    assert (await service.read_limits(org_id, agent_id, Limits())).limits.agent_rpm == 7


NOWHERE = str(uuid4())
BAD_CALLS: list[tuple[str, Callable[[Service, str, str], Coroutine[Any, Any, Any]]]] = [
    ("name", lambda service, _, __: service.create_organization("")),
    ("name", lambda service, org, _: service.create_agent(org, "a\x00b")),
    ("org_id", lambda service, _, __: service.create_agent("nope", "bot")),
    ("org_id", lambda service, _, __: service.list_agents("nope")),
    ("agent_id", lambda service, _, __: service.issue_agent_key("nope")),
    ("name", lambda service, _, agent: service.issue_agent_key(agent, "x" * 201)),
    ("org_id", lambda service, _, __: service.issue_operator_key("nope", Role.ADMIN)),
    ("role", lambda service, org, _: service.issue_operator_key(org, Role.PLATFORM)),
    ("key_id", lambda service, _, __: service.revoke_key("nope")),
    ("org_id", lambda service, _, __: service.read_limits("nope", None, Limits())),
    ("agent_id", lambda service, org, _: service.read_limits(org, "nope", Limits())),
    ("tokens_per_month", lambda service, org, agent: update(service, org, agent, 1, 1)),
    ("requests_per_minute", lambda service, org, _: update(service, org, None, -1, 1)),
    ("tokens_per_month", lambda service, org, _: update(service, org, None, 1, 2**53)),
    ("requests_per_minute", lambda service, org, _: update(service, org, None, True, 1)),
    ("requests_per_minute", lambda service, org, _: update(service, org, None, "10", 1)),
    ("tokens_per_month", lambda service, org, _: update(service, org, None, 1, 1.5)),
]


async def update(service: Service, org: str, agent: str | None, rpm: Any, tokens: Any) -> None:
    await service.update_limits(org, agent, OverrideChange(rpm, tokens), "cli:t", "cli")


@pytest.mark.parametrize(("field", "call"), BAD_CALLS)
async def test_bad_input_names_the_field_and_changes_nothing(
    service: Service,
    channel: Channel,
    pool: asyncpg.Pool,
    field: str,
    call: Callable[[Service, str, str], Coroutine[Any, Any, Any]],
) -> None:
    """Each use case refuses what it cannot use, before anything is written or published."""
    org_id, agent_id = await organization_with_agent(service)
    before, published = await contents(pool), list(channel.published)

    with pytest.raises(BadInput) as error:
        await call(service, org_id, agent_id)

    assert error.value.field == field
    assert str(error.value).startswith(f"{field}: ")
    assert (await contents(pool), channel.published) == (before, published)


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("organization", lambda service, _: service.create_agent(NOWHERE, "bot")),
        ("organization", lambda service, _: service.list_agents(NOWHERE)),
        ("agent", lambda service, _: service.issue_agent_key(NOWHERE)),
        ("organization", lambda service, _: service.issue_operator_key(NOWHERE, Role.ADMIN)),
        ("key", lambda service, _: service.revoke_key(NOWHERE)),
        ("organization", lambda service, _: service.read_limits(NOWHERE, None, Limits())),
        ("organization", lambda service, _: update(service, NOWHERE, None, 1, 1)),
        ("agent", lambda service, org: service.read_limits(org, NOWHERE, Limits())),
    ],
)
async def test_unknown_ids_are_not_found(
    service: Service,
    channel: Channel,
    pool: asyncpg.Pool,
    what: str,
    call: Callable[[Service, str], Coroutine[Any, Any, Any]],
) -> None:
    """What does not exist is named, and nothing is written or published."""
    org_id, _ = await organization_with_agent(service)
    before, published = await contents(pool), list(channel.published)

    with pytest.raises(NotFound, match=f"there is no {what} {NOWHERE}"):
        await call(service, org_id)

    assert (await contents(pool), channel.published) == (before, published)


async def test_another_organizations_agent_looks_like_none(service: Service) -> None:
    """Nobody can tell an agent of another organization from one that does not exist."""
    mine, _ = await organization_with_agent(service)
    _, foreign = await organization_with_agent(service)

    def message(agent_id: str) -> str:
        return f"there is no agent {agent_id}"

    for agent_id in (foreign, NOWHERE):
        with pytest.raises(NotFound) as read:
            await service.read_limits(mine, agent_id, Limits())
        with pytest.raises(NotFound) as written:
            await service.update_limits(mine, agent_id, OverrideChange(1), "cli:t", "cli")

        assert str(read.value) == str(written.value) == message(agent_id)


async def test_lost_database_is_unavailable_and_nothing_is_published(
    service: Service, channel: Channel, pool: asyncpg.Pool
) -> None:
    """Without Postgres a change fails as such; gateways are not told of what did not happen."""
    org_id, _ = await organization_with_agent(service)
    channel.published.clear()
    await pool.close()

    with pytest.raises(DatabaseUnavailable):
        await service.update_limits(org_id, None, OverrideChange(1), "cli:t", "cli")

    assert channel.published == []

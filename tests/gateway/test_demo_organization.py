"""What `ibex dev` creates in the database, and what it keeps of it."""

import asyncpg
import msgspec

from db import api_keys
from db.api_keys import Role
from gateway.cli.demo_organization import DemoOrganization, provision


async def live_keys(url: str) -> dict[bytes, str]:
    """The roles of the keys that are accepted, by their digests."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT digest, role FROM ibex_core.api_keys WHERE revoked_at IS NULL"
        )
        return {row["digest"]: row["role"] for row in rows}
    finally:
        await connection.close()


async def execute(url: str, sql: str) -> None:
    """Run a statement."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


def keys_of(organization: DemoOrganization) -> dict[str, Role]:
    """Every key that was handed out, and what it should be for."""
    return {
        **{agent.key: Role.AGENT for agent in organization.agents},
        organization.admin_key: Role.ADMIN,
        organization.read_only_key: Role.READ_ONLY,
        organization.platform_key: Role.PLATFORM,
    }


async def test_a_new_database_gets_two_agents_and_a_key_for_each_role(database_url: str) -> None:
    """The first start migrates, and every key that it hands out is accepted."""
    organization = await provision(database_url, None)

    keys = keys_of(organization)
    assert len(organization.agents) == 2
    assert {api_keys.digest(key): role for key, role in keys.items()} == await live_keys(
        database_url
    )
    assert {key: api_keys.well_formed(key) for key in keys} == keys


async def test_the_demo_limits_are_set(database_url: str) -> None:
    """The organization has limits of both kinds, and each agent one of its own."""
    organization = await provision(database_url, None)

    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch(
        "SELECT org_id::text, requests_per_minute, tokens_per_month"
        " FROM ibex_core.rate_limit_overrides ORDER BY agent_id NULLS FIRST"
    )
    await connection.close()
    assert [tuple(row) for row in rows] == [
        (organization.organization_id, 100, 2_000_000),
        (organization.organization_id, 60, None),
        (organization.organization_id, 60, None),
    ]


async def test_a_second_start_changes_nothing(database_url: str) -> None:
    """What the first start made is found again, and no key is issued."""
    first = await provision(database_url, None)
    before = await live_keys(database_url)

    second = await provision(database_url, first)

    assert second == first
    assert await live_keys(database_url) == before


async def test_limits_that_were_changed_stay_changed(database_url: str) -> None:
    """A start does not put back what the operator has set since."""
    first = await provision(database_url, None)
    await execute(database_url, "UPDATE ibex_core.rate_limit_overrides SET requests_per_minute = 7")

    await provision(database_url, first)

    connection = await asyncpg.connect(database_url)
    value = await connection.fetchval(
        "SELECT max(requests_per_minute) FROM ibex_core.rate_limit_overrides"
    )
    await connection.close()
    assert value == 7


async def test_forgotten_keys_are_issued_anew(database_url: str) -> None:
    """Without its file, a start finds organization and agents, and hands out keys that work."""
    first = await provision(database_url, None)

    second = await provision(database_url, None)

    assert second.organization_id == first.organization_id
    assert [agent.id for agent in second.agents] == [agent.id for agent in first.agents]
    assert not keys_of(second).keys() & keys_of(first).keys()
    digests = {api_keys.digest(key): role for key, role in keys_of(second).items()}
    assert digests.items() <= (await live_keys(database_url)).items()


async def test_a_file_of_another_database_is_not_believed(database_url: str) -> None:
    """When the database was thrown away, the old file's keys are worth nothing."""
    lost = await provision(database_url, None)
    await execute(database_url, "TRUNCATE ibex_core.organizations CASCADE")

    new = await provision(database_url, lost)

    assert new.organization_id != lost.organization_id
    assert not keys_of(new).keys() & keys_of(lost).keys()


async def test_a_revoked_agents_key_is_replaced(database_url: str) -> None:
    """No key is shown that the gateway would refuse; the others stay."""
    first = await provision(database_url, None)
    revoked, kept = first.agents
    await execute(
        database_url,
        f"UPDATE ibex_core.api_keys SET revoked_at = now() WHERE agent_id = '{revoked.id}'",
    )

    second = await provision(database_url, first)

    assert second.agents[0].key != revoked.key
    assert second == msgspec.structs.replace(first, agents=[second.agents[0], kept])


async def test_keys_are_not_in_a_representation(database_url: str) -> None:
    """A log or a traceback that shows the objects shows no key."""
    organization = await provision(database_url, None)

    shown = repr(organization) + repr(organization.agents)

    assert not any(key in shown for key in keys_of(organization))

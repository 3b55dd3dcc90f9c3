"""What operators read and change, on real servers. Who may: see test_isolation.py."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from limited_traffic import Traffic
from msgspec import structs
from operators import DEFAULTS, World, update
from servers import StartRedis

from db.limits import OverrideChange
from graphql_api.errors import Conflict, DatabaseUnavailable, LimiterError
from graphql_api.management import Management
from graphql_api.model import Overrides, RateLimits
from lua.connection import RedisAddress, connect
from lua.usage import LiveNumbers


async def test_a_new_organization_has_the_platforms_limits_and_no_traffic(
    operated: World,
) -> None:
    """Every limit is inherited, every number is zero, and the window is empty now."""
    found = await operated.management.rate_limits(operated.ours.admin, operated.ours.id)

    assert found.reset_at is not None
    assert abs(found.reset_at - datetime.now(UTC)) < timedelta(seconds=5)
    assert found == RateLimits(
        organization_id=operated.ours.id,
        agent_id=None,
        org_requests_per_minute=600,
        agent_requests_per_minute=60,
        org_tokens_per_month=1_000_000,
        global_requests_per_minute=None,
        global_is_visible=False,
        overrides=Overrides(None, None),
        current_minute_requests=0,
        current_month_tokens=0,
        held_tokens=0,
        in_flight=0,
        reset_at=found.reset_at,
        version=found.version,
        updated_at=None,
        updated_by=None,
    )


async def test_the_platforms_limit_is_told_to_its_operators(operated: World) -> None:
    """What others may use of the whole is nobody else's business."""
    found = await operated.management.rate_limits(operated.platform, operated.ours.id)

    assert (found.global_is_visible, found.global_requests_per_minute) == (True, 6000)


async def test_live_numbers_are_the_limiters(operated: World, traffic: Traffic) -> None:
    """Requests of the agent or organization; tokens and requests in flight of the organization."""
    ours = operated.ours
    other = (await operated.management.create_agent(ours.admin, ours.id, "second")).value
    await traffic.request(ours.id, ours.agent_id, 7)
    await traffic.request(ours.id, ours.agent_id, None)
    await traffic.request(ours.id, other.id, 5)
    await traffic.settled()

    org, first, second = await operated.management.rate_limits_of(
        ours.read_only, [(ours.id, None), (ours.id, ours.agent_id), (ours.id, other.id)]
    )

    assert [n.current_minute_requests for n in (org, first, second)] == [3, 2, 1]
    for numbers in (org, first, second):
        assert (numbers.current_month_tokens, numbers.held_tokens, numbers.in_flight) == (12, 20, 1)
        assert numbers.reset_at is not None
        assert timedelta(0) < numbers.reset_at - datetime.now(UTC) < timedelta(seconds=62)


async def test_an_update_answers_what_is_in_force_and_who_did_it(operated: World) -> None:
    """The answer is what reading shows from now on: limits, overrides, version, author."""
    ours = operated.ours
    before = await operated.management.rate_limits(ours.admin, ours.id)

    changed = await update(operated, None, OverrideChange(10, 5000))

    assert changed.published
    assert changed.value.version == before.version + 1
    assert changed.value.overrides == Overrides(10, 5000)
    assert changed.value.org_requests_per_minute == 10
    assert changed.value.org_tokens_per_month == 5000
    assert changed.value.updated_by == f"key:{ours.admin.key_id} Ours admin"
    assert changed.value.updated_at is not None
    read = await operated.management.rate_limits(ours.admin, ours.id)
    assert structs.replace(read, reset_at=changed.value.reset_at) == changed.value
    assert operated.channel.published == [ours.id]


async def test_author_is_that_of_the_very_target(operated: World) -> None:
    """A change of the organization is not one of its agent, nor the other way round."""
    ours = operated.ours
    await update(operated, None, OverrideChange(10))
    read = operated.management.rate_limits
    assert (await read(ours.admin, ours.id, ours.agent_id)).updated_by is None

    await operated.management.update_rate_limits(
        operated.platform, ours.id, ours.agent_id, OverrideChange(5),
        expected_version=None, via="rest",
    )  # fmt: skip

    agent = await read(ours.admin, ours.id, ours.agent_id)
    assert (agent.updated_by, agent.agent_requests_per_minute) == (operated.platform.actor, 5)
    assert (await read(ours.admin, ours.id)).updated_by == ours.admin.actor


async def test_absent_keeps_null_inherits_and_zero_is_a_limit(operated: World) -> None:
    """The three that are often mixed up."""

    async def after(change: OverrideChange) -> tuple[Overrides, int | None]:
        limits = (await update(operated, None, change)).value
        return limits.overrides, limits.org_requests_per_minute

    assert await after(OverrideChange(0, 9)) == (Overrides(0, 9), 0)
    assert await after(OverrideChange()) == (Overrides(0, 9), 0)
    assert await after(OverrideChange(requests_per_minute=None)) == (
        Overrides(None, 9), DEFAULTS.org_rpm
    )  # fmt: skip


async def test_the_version_that_was_expected_decides_between_two_writers(
    operated: World, pool: asyncpg.Pool
) -> None:
    """The second, who saw what the first replaced, is told so, and writes and publishes nothing."""
    version = (await operated.management.rate_limits(operated.ours.admin, operated.ours.id)).version
    first = await update(operated, None, OverrideChange(10), version)
    operated.channel.published.clear()

    for agent_id in (None, operated.ours.agent_id):
        with pytest.raises(Conflict, match=f"at version {version + 1} by now"):
            await update(operated, agent_id, OverrideChange(20), version)

    assert operated.channel.published == []
    assert await pool.fetchval("SELECT count(*) FROM ibex_core.rate_limit_changes") == 1
    assert (await update(operated, None, OverrideChange(20), first.value.version)).published


async def test_without_an_expected_version_the_last_one_wins(operated: World) -> None:
    """And both are in the audit."""
    await update(operated, None, OverrideChange(10))
    await update(operated, None, OverrideChange(20))

    found = await operated.management.changes(operated.ours.admin, operated.ours.id)

    assert [(change.old, change.new) for change in found.items] == [(10, 20), (None, 10)]


async def test_the_audit_tells_who_changed_what_through_what(operated: World) -> None:
    """One row for each limit that changed, the newest first, with the agent where it is one."""
    ours = operated.ours
    await update(operated, None, OverrideChange(10, 5000))
    await update(operated, ours.agent_id, OverrideChange(3))

    page = await operated.management.changes(ours.read_only, ours.id)

    assert page.next is None
    assert [(row.agent_id, row.field, row.old, row.new) for row in page.items] == [
        (ours.agent_id, "requests_per_minute", None, 3),
        (None, "tokens_per_month", None, 5000),
        (None, "requests_per_minute", None, 10),
    ]
    assert {(row.by, row.via, row.organization_id) for row in page.items} == {
        (ours.admin.actor, "graphql", ours.id)
    }
    assert [int(row.id) for row in page.items] == sorted(
        (int(row.id) for row in page.items), reverse=True
    )


async def test_usage_is_the_last_hour_of_agent_organization_and_platform(
    operated: World, traffic: Traffic
) -> None:
    """Sixty minutes, oldest first; requests, tokens and denials where they happened."""
    ours, theirs = operated.ours, operated.theirs
    for _ in range(4):
        await traffic.request(ours.id, ours.agent_id, 7, agent_rpm=3)
    await traffic.request(theirs.id, theirs.agent_id, 5)
    await traffic.settled()

    usage = operated.management.usage
    for points, expected in (
        (await usage(ours.read_only, agent_id=ours.agent_id), (3, 21, 1)),
        (await usage(ours.read_only, organization_id=ours.id), (3, 21, 1)),
        (await usage(operated.platform), (4, 26, 1)),
        (await usage(theirs.admin, agent_id=theirs.agent_id), (1, 5, 0)),
    ):
        assert len(points) == 60
        times = [point.timestamp for point in points]
        assert times == [times[0] + timedelta(minutes=number) for number in range(60)]
        assert times[-1] <= datetime.now(UTC) < times[-1] + timedelta(minutes=2)
        assert (
            sum(point.requests for point in points),
            sum(point.tokens for point in points),
            sum(point.denied.agent for point in points),
        ) == expected
        assert {(p.denied.org, p.denied.platform, p.denied.tokens) for p in points} == {(0, 0, 0)}


async def test_without_redis_changes_stand_and_reading_says_so(
    operated: World, start_redis: StartRedis
) -> None:
    """A change is made and answers that it is not published yet; unknown numbers are not zero."""
    server = start_redis()
    client = connect(RedisAddress(server.url), timeout_s=1)
    management = Management(
        operated.repository, LiveNumbers(client), operated.channel.publish, DEFAULTS
    )
    cut_off = replace(operated, management=management)
    server.stop()
    ours = operated.ours

    for call in (
        management.rate_limits(ours.admin, ours.id),
        management.usage(ours.admin, organization_id=ours.id),
    ):
        with pytest.raises(LimiterError):
            await call
    published = await update(cut_off, None, OverrideChange(5))
    operated.channel.connected = False
    unpublished = await update(cut_off, None, OverrideChange(6))

    assert (published.published, unpublished.published) == (True, False)
    for limits, rpm in ((published.value, 5), (unpublished.value, 6)):
        assert limits.org_requests_per_minute == rpm
        assert (limits.current_minute_requests, limits.current_month_tokens) == (None, None)
        assert (limits.held_tokens, limits.in_flight, limits.reset_at) == (None, None, None)
    await client.aclose()


async def test_without_postgres_nothing_is_changed_or_published(
    operated: World, pool: asyncpg.Pool
) -> None:
    """The error says that the database is not there."""
    await pool.close()

    with pytest.raises(DatabaseUnavailable):
        await update(operated, None, OverrideChange(5))
    with pytest.raises(DatabaseUnavailable):
        await operated.management.organizations(operated.platform)
    assert operated.channel.published == []


async def test_queries_do_not_grow_with_what_is_asked_for(
    operated: World, pool: asyncpg.Pool
) -> None:
    """The limits of one agent, and those of a dozen, cost the same number of statements."""
    ours = operated.ours
    for number in range(11):
        await operated.management.create_agent(ours.admin, ours.id, f"a{number}")
    agents = [agent.id for agent in (await operated.management.agents(ours.admin, ours.id)).items]
    statements: list[str] = []

    def listen(record: Any) -> None:
        statements.append(record.query)

    async def cost(agent_ids: list[str]) -> int:
        statements.clear()
        await operated.management.rate_limits_of_agents(ours.admin, ours.id, agent_ids)
        return len(statements)

    connections = [await pool.acquire() for _ in range(pool.get_max_size())]
    for connection in connections:
        connection.add_query_logger(listen)
        await pool.release(connection)

    assert len(agents) == 12
    assert await cost(agents[:1]) == await cost(agents)

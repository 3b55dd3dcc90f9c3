"""Lists with what is nearest to its limits on top, on real servers. Who may: test_isolation.py."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
import redis
from limited_traffic import Traffic
from msgspec import structs
from operators import DEFAULTS, World, update
from servers import StartRedis

from db.limits import OverrideChange
from db.rows import Target
from graphql_api.errors import BadInput, LimiterError
from graphql_api.management import Management
from graphql_api.model import (
    AgentRow,
    DeniedCounts,
    OrganizationRow,
    Ranked,
    RateLimits,
    Viewer,
)
from graphql_api.ranking import Ranking
from lua import keys
from lua.connection import RedisAddress, connect
from lua.usage import LiveNumbers

PROMPT_S = 0.3
"""How long a page of ten thousand agents may take, were we alone: what others take is not ours."""
MANY = """
    INSERT INTO ibex_core.agents (org_id, name)
    SELECT $1, format('agent %s', to_char(number, 'FM00000')) FROM generate_series(1, $2) AS number
    RETURNING id::text
"""
LIMIT = """
    INSERT INTO ibex_core.rate_limit_overrides (org_id, agent_id, requests_per_minute)
    VALUES ($1, $2, $3)
"""


async def agents(world: World, *limits: int | None) -> list[str]:
    """New agents of ours, by their requests per minute (None: the default, 60)."""
    found = []
    for number, limit in enumerate(limits):
        name = f"agent {number}"
        made = await world.management.create_agent(world.ours.admin, world.ours.id, name)
        await update(world, made.value.id, OverrideChange(limit))
        found.append(made.value.id)
    return found


def names(page: Ranked[AgentRow]) -> list[str]:
    return [row.agent.name for row in page.items]


def pressures(page: Ranked[AgentRow] | Ranked[OrganizationRow]) -> list[float]:
    return [row.pressure for row in page.items]


async def test_agents_come_by_pressure_then_requests_then_name(
    operated: World, traffic: Traffic
) -> None:
    """2 of 4 come before 12 of the default's 60; a limit of 0 is full; idle ones come by name."""
    ours = operated.ours
    used = {4: 2, 8: 4, None: 12, 0: 0, 2: 3, 200: 13}
    ids = await agents(operated, *used, None, None)
    for id_, requests in zip(ids, used.values(), strict=False):
        for _ in range(requests):
            await traffic.request(ours.id, id_, 1)

    page = await operated.management.ranked_agents(ours.read_only, ours.id)

    assert names(page) == [
        *("agent 4", "agent 3", "agent 1", "agent 0", "agent 2", "agent 5"),
        *("Ours's agent", "agent 6", "agent 7"),
    ]
    assert names(page) == [
        name
        for number in range(1, 10)
        for name in names(
            await operated.management.ranked_agents(ours.admin, ours.id, page=number, size=1)
        )
    ]
    assert pressures(page) == [1.5, 1.0, 0.5, 0.5, 0.2, 13 / 200, 0.0, 0.0, 0.0]
    assert (page.total, page.page, page.pages) == (9, 1, 1)
    for row in page.items:
        assert row.limits.agent_id == row.agent.id
        requests = row.limits.current_minute_requests or 0
        assert row.limits.agent_requests_per_minute is not None
        assert row.pressure in (1.0, requests / max(row.limits.agent_requests_per_minute, 1))
        assert sum(point.requests for point in row.usage) == requests


async def test_a_page_is_in_the_order_of_the_numbers_it_shows(
    operated: World, traffic: Traffic
) -> None:
    """Requests that come while it is read change the order, not only the numbers."""
    ours = operated.ours
    first, second, third = await agents(operated, 10, 10, 20)
    await traffic.request(ours.id, first, 1)
    read = operated.management.rate_limits_of

    async def read_later(viewer: Viewer, targets: Sequence[Target]) -> list[RateLimits]:
        for id_, requests in ((second, 2), (third, 4)):
            for _ in range(requests):
                await traffic.request(ours.id, id_, 1)
        return await read(viewer, targets)

    ranking = Ranking(operated.repository, traffic.numbers, DEFAULTS, read_later)
    page = await ranking.agents(ours.admin, ours.id, 1, 50)

    assert names(page) == ["agent 2", "agent 1", "agent 0", "Ours's agent"]
    assert pressures(page) == [0.2, 0.2, 0.1, 0.0]


async def test_organizations_come_by_their_tightest_limit(
    operated: World, traffic: Traffic
) -> None:
    """Requests or the month's tokens, those that are held included; denials of the hour beside."""
    ours, theirs, platform = operated.ours, operated.theirs, operated.platform
    idle = [
        await operated.management.create_organization(platform, name)
        for name in ("Idle C", "Idle A", "Idle D", "Idle B")
    ]
    await update(operated, None, OverrideChange(10_000, 100))
    for agent_rpm in (None, 1, 1, 1):
        await traffic.request(ours.id, ours.agent_id, 20, agent_rpm)
    await traffic.request(ours.id, ours.agent_id, None)
    await traffic.request(theirs.id, theirs.agent_id, 5)
    traffic.forwarded_open(ours.id, ours.agent_id)
    await traffic.settled()

    page = await operated.management.ranked_organizations(platform)

    assert [row.organization.id for row in page.items] == [
        ours.id,
        theirs.id,
        *(org.id for org in sorted(idle, key=lambda org: org.name)),
    ]
    (first,) = (await operated.management.ranked_organizations(platform, size=1)).items
    assert first.organization.id == ours.id
    assert pressures(page) == [0.4, 1 / 600, 0.0, 0.0, 0.0, 0.0]
    assert page.items[0].denied_last_hour == DeniedCounts(agent=3)
    assert page.items[1].denied_last_hour == DeniedCounts()
    assert page.items[0].limits == await _same_but_reset(operated, page.items[0])
    assert page.items[0].organization == await operated.management.organization(platform, ours.id)


async def _same_but_reset(world: World, row: OrganizationRow) -> Any:
    """What rate_limits shows of the row's organization, but for the moment of asking."""
    found = await world.management.rate_limits(world.platform, row.organization.id)
    return structs.replace(found, reset_at=row.limits.reset_at)


async def test_pages_join_to_the_whole_list(operated: World) -> None:
    """Nothing is left out or shown twice; a page past the last one is the last one."""
    ours = operated.ours
    await agents(operated, *[None] * 6)
    whole = names(await operated.management.ranked_agents(ours.admin, ours.id))
    assert len(whole) == 7

    async def page(number: int, size: int) -> Ranked[AgentRow]:
        return await operated.management.ranked_agents(ours.admin, ours.id, page=number, size=size)

    for size, pages in ((1, 7), (3, 3), (4, 2), (7, 1), (500, 1)):
        found = [await page(number, size) for number in range(1, pages + 1)]
        beyond = await page(pages + 7, size)

        assert [name for each in found for name in names(each)] == whole
        assert [(each.page, each.pages, each.total) for each in found] == [
            (number, pages, 7) for number in range(1, pages + 1)
        ]
        assert (beyond.page, names(beyond)) == (pages, names(found[-1]))


async def test_pages_out_of_bounds_name_the_field(operated: World) -> None:
    """A page has 1 to 500 rows, and pages are counted from 1."""
    management, ours = operated.management, operated.ours
    for field, page, size in (("page", 0, 5), ("page", -1, 5), ("size", 1, 0), ("size", 1, 501)):
        for call in (
            management.ranked_agents(ours.admin, ours.id, page=page, size=size),
            management.ranked_organizations(ours.admin, page=page, size=size),
        ):
            with pytest.raises(BadInput) as error:
                await call
            assert error.value.field == field


async def test_open_requests_and_estimates_are_in_the_usage_of_everybody_concerned(
    operated: World, traffic: Traffic
) -> None:
    """Of the agent, its organization and the platform; not among the requests that were decided."""
    ours = operated.ours
    traffic.forwarded_open(ours.id, ours.agent_id)
    traffic.forwarded_open(ours.id, ours.agent_id)
    await traffic.request(ours.id, ours.agent_id, 7, is_estimate=True)
    await traffic.request(ours.id, ours.agent_id, 4)
    await traffic.settled()
    usage = operated.management.usage

    (row,) = (await operated.management.ranked_agents(ours.admin, ours.id)).items
    for points in (
        row.usage,
        await usage(ours.admin, agent_id=ours.agent_id),
        await usage(ours.admin, organization_id=ours.id),
        await usage(operated.platform),
    ):
        kinds = ("open", "requests", "tokens", "estimated")
        assert [sum(getattr(p, kind) for p in points) for kind in kinds] == [2, 2, 11, 7]


async def test_a_key_that_is_no_ring_does_not_hide_the_others_order(
    operated: World, traffic: Traffic, redis_url: str
) -> None:
    """Somebody wrote over the ring of an agent that is on another page: it counts as idle."""
    ours = operated.ours
    busy, broken = await agents(operated, None, None)
    await traffic.request(ours.id, busy, 1)
    with redis.Redis.from_url(redis_url) as client:
        client.set(keys.agent_ring(ours.id, broken), "mine")

    page = await operated.management.ranked_agents(ours.admin, ours.id, size=1)

    assert names(page) == ["agent 0"]


async def test_without_redis_there_is_no_order(operated: World, start_redis: StartRedis) -> None:
    """It is said, as everywhere: zeros would be a lie."""
    server = start_redis()
    server.stop()
    client = connect(RedisAddress(server.url), timeout_s=1)
    channel = operated.channel
    management = Management(operated.repository, LiveNumbers(client), channel.publish, DEFAULTS)
    cut_off = replace(operated, management=management)

    for call in (
        cut_off.management.ranked_agents(operated.ours.admin, operated.ours.id),
        cut_off.management.ranked_organizations(operated.platform),
        cut_off.management.platform_numbers(operated.platform),
    ):
        with pytest.raises(LimiterError):
            await call
    known = await cut_off.management.limits_of(operated.ours.admin, [(operated.ours.id, None)])
    assert [(n.org_requests_per_minute, n.current_minute_requests) for n in known] == [(600, None)]
    await client.aclose()


async def test_what_is_asked_of_the_servers_does_not_grow_with_the_page(
    operated: World, pool: asyncpg.Pool, redis_url: str
) -> None:
    """One agent or twelve: as many statements, and as many round trips to Redis."""
    ours = operated.ours
    statements: list[str] = []
    connections = [await pool.acquire() for _ in range(pool.get_max_size())]
    for connection in connections:
        connection.add_query_logger(lambda record: statements.append(record.query))
        await pool.release(connection)

    async def cost() -> tuple[int, int]:
        statements.clear()
        with redis.Redis.from_url(redis_url) as client:
            client.config_resetstat()
            await operated.management.ranked_agents(ours.admin, ours.id)
            await operated.management.ranked_organizations(operated.platform)
            stats: Any = client.info("commandstats")
        return len(statements), stats["cmdstat_exec"]["calls"] + stats["cmdstat_evalsha"]["calls"]

    await cost()
    one = await cost()
    await agents(operated, *[None] * 11)

    assert await cost() == one


async def test_ten_thousand_agents_are_ranked_promptly(
    operated: World, pool: asyncpg.Pool, traffic: Traffic
) -> None:
    """All take part in the order, wherever in the list they are, and the page is there in time."""
    ours = operated.ours
    made = [row["id"] for row in await pool.fetch(MANY, ours.id, 10_000)]
    tight = made[5_000:5_010]
    await pool.executemany(LIMIT, [(ours.id, id_, 2) for id_ in tight])
    for id_ in tight:
        await traffic.request(ours.id, id_, 1)
    await traffic.request(ours.id, made[-1], 1)
    took = []
    for _ in range(3):
        began = time.process_time()
        page = await operated.management.ranked_agents(ours.admin, ours.id)
        took.append(time.process_time() - began)

    assert [row.agent.id for row in page.items[:11]] == [*tight, made[-1]]
    assert pressures(page) == [0.5] * 10 + [1 / 60] + [0.0] * 39
    assert names(page)[11:14] == ["Ours's agent", "agent 00001", "agent 00002"]
    assert (page.total, page.pages) == (10_001, 201)
    assert min(took) < PROMPT_S, took

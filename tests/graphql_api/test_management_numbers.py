"""Limits without live numbers, and the platform's own number."""

import asyncpg
import pytest
from limited_traffic import Traffic
from msgspec import structs
from operators import World, update, world
from servers import StartRedis

from db.limits import OverrideChange
from graphql_api.errors import Forbidden, LimiterError, NotFound
from graphql_api.model import PlatformNumbers

LIVE = ("current_minute_requests", "current_month_tokens", "held_tokens", "in_flight", "reset_at")


async def test_limits_alone_are_those_that_come_with_numbers(
    operated: World, traffic: Traffic
) -> None:
    """In the order in which they are asked for; the numbers are None."""
    ours = operated.ours
    await update(operated, ours.agent_id, OverrideChange(5))
    await traffic.request(ours.id, ours.agent_id, 10)
    targets = [(ours.id, ours.agent_id), (ours.id, None)]

    alone = await operated.management.limits_of(ours.admin, targets)

    with_numbers = await operated.management.rate_limits_of(ours.admin, targets)
    assert alone == [structs.replace(each, **dict.fromkeys(LIVE)) for each in with_numbers]
    assert [each.current_minute_requests for each in with_numbers] == [1, 1]


async def test_limits_alone_need_no_redis(pool: asyncpg.Pool, start_redis: StartRedis) -> None:
    """But the platform's number does."""
    server = start_redis()
    async with world(pool, server.url) as made:
        server.stop()

        (found,) = await made.management.limits_of(made.ours.admin, [(made.ours.id, None)])

        assert found.org_requests_per_minute == 600
        with pytest.raises(LimiterError):
            await made.management.platform_numbers(made.platform)


async def test_limits_alone_of_others_are_not_found(operated: World) -> None:
    """As those with numbers."""
    for agent_id in (None, operated.theirs.agent_id):
        with pytest.raises(NotFound):
            await operated.management.limits_of(
                operated.ours.admin, [(operated.theirs.id, agent_id)]
            )


async def test_the_platforms_number_counts_everybody(operated: World, traffic: Traffic) -> None:
    """And is told to its operators alone."""
    for tenant in (operated.ours, operated.theirs, operated.theirs):
        await traffic.request(tenant.id, tenant.agent_id, 10)

    found = await operated.management.platform_numbers(operated.platform)

    assert found == PlatformNumbers(requests_per_minute=6000, current_minute_requests=3)
    for viewer in (operated.ours.admin, operated.ours.read_only):
        with pytest.raises(Forbidden):
            await operated.management.platform_numbers(viewer)


async def test_a_change_names_its_agent(operated: World) -> None:
    """An organization's own change names none."""
    ours = operated.ours
    await update(operated, ours.agent_id, OverrideChange(5))
    await update(operated, None, OverrideChange(6))

    found = (await operated.management.changes(ours.admin, ours.id)).items

    assert [each.agent_name for each in found] == [None, "Ours's agent"]

"""The watcher of keys and limits: hears, polls, outlives every fault, and misses nothing."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from uuid import uuid4

import asyncpg
import pytest
from config_world import DEFAULTS, NEVER_S, World, org_rpm
from structlog.testing import capture_logs
from waiting import comes_true

from db.errors import DatabaseError
from db.repository import Repository, connect
from gateway.config import Config
from lua import connection, keys
from lua.channel import changes
from lua.connection import RedisAddress

HIDE = "ALTER SCHEMA ibex_core RENAME TO hidden"
SHOW = "ALTER SCHEMA hidden RENAME TO ibex_core"
DELETE = (
    "DELETE FROM ibex_core.api_keys WHERE org_id = $1",
    "DELETE FROM ibex_core.agents WHERE org_id = $1",
    "DELETE FROM ibex_core.organizations WHERE id = $1",
)


async def test_a_load_that_fails_keeps_the_last_snapshot(world: World) -> None:
    """It is counted and logged once, and tried again until it succeeds: then nothing is missed."""
    org_id, _, digest = await world.agent()
    async with world.config() as config:
        before = config.snapshot
        with capture_logs() as log:
            await world.limit(org_id, 5)
            await world.pool.execute(HIDE)
            await world.publish(org_id)

            assert await comes_true(lambda: config.failed_loads >= 2)
            assert config.is_stale
            assert config.snapshot is before

            await world.pool.execute(SHOW)
            assert await comes_true(lambda: not config.is_stale)

        assert org_rpm(config, digest) == 5
        assert [line["log_level"] for line in log] == ["error", "warning"]


async def test_connections_that_the_server_ends_are_made_anew(
    world: World, database_url: str
) -> None:
    """A failover costs at most one load, and no change is lost by it."""
    org_id, _, digest = await world.agent()
    async with world.config() as config:
        await world.limit(org_id, 5)
        killer = await asyncpg.connect(database_url)
        await killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await killer.close()
        await world.publish(org_id)

        assert await comes_true(lambda: org_rpm(config, digest) == 5)
        assert await comes_true(lambda: not config.is_stale)


async def test_a_fault_that_nobody_expected_does_not_end_the_watcher(world: World) -> None:
    """Postgres has many ways to refuse a query; after each the next load may succeed."""
    org_id, _, digest = await world.agent()
    async with world.config() as config:
        await world.limit(org_id, 5)
        await world.pool.execute(
            "ALTER TABLE ibex_core.agents RENAME TO hidden;"
            "CREATE VIEW ibex_core.agents AS SELECT * FROM ibex_core.hidden"
            " WHERE 1 / (length(name) - length(name)) = 1"
        )
        await world.publish(org_id)
        assert await comes_true(lambda: config.is_stale)

        await world.pool.execute(
            "DROP VIEW ibex_core.agents; ALTER TABLE ibex_core.hidden RENAME TO agents"
        )
        assert await comes_true(lambda: org_rpm(config, digest) == 5)


async def test_a_start_without_a_schema_fails(database_url: str, redis_url: str) -> None:
    """A gateway that knows no keys at all would turn everybody away: it does not start."""
    pool = await connect(database_url, min_size=1, max_size=1)
    redis = connection.connect(RedisAddress(redis_url), timeout_s=5)
    config = Config(Repository(pool), DEFAULTS, partial(changes, redis), poll_s=NEVER_S)

    with pytest.raises(DatabaseError, match="ibex migrate"):
        await config.start()

    await config.stop()
    await redis.aclose()
    await pool.close()


@pytest.mark.parametrize("garbage", ["", "nonsense", "*", str(uuid4()).upper(), str(uuid4()), "é"])
async def test_garbage_on_the_channel_is_ignored(world: World, garbage: str) -> None:
    """Nothing fails, and the next true message is heard."""
    org_id, _, digest = await world.agent()
    async with world.config() as config:
        await world.publish(garbage)
        await world.redis.publish(f"{keys.config_channel('x')}", b"\xff\x00")
        await world.limit(org_id, 5)
        await world.publish(org_id)

        assert await comes_true(lambda: org_rpm(config, digest) == 5)
        assert not config.is_stale
        assert config.subscribed


async def test_a_burst_of_messages_is_one_load_or_few(world: World) -> None:
    """Five hundred changes do not mean five hundred queries, and the last one counts."""
    org_id, _, digest = await world.agent()
    async with world.config() as config:
        await world.limit(org_id, 5)
        loads = world.repository.loads
        async with world.redis.pipeline(transaction=False) as pipeline:
            for _ in range(500):
                pipeline.publish(keys.config_channel(org_id), "changed")
            await pipeline.execute()

        assert await comes_true(lambda: org_rpm(config, digest) == 5)
        await asyncio.sleep(0.2)
        assert world.repository.loads - loads < 50


async def test_a_change_that_was_not_published_is_found_by_the_poll(world: World) -> None:
    """Also a new organization, and one that was deleted behind our back."""
    org_id, _, digest = await world.agent()
    gone, _, gone_digest = await world.agent()
    async with world.config(poll_s=0.2) as config:
        await world.limit(org_id, 5)
        _, _, new_digest = await world.agent()
        for sql in DELETE:
            await world.pool.execute(sql, gone)

        assert await comes_true(lambda: set(config.snapshot.callers) == {digest, new_digest})
        assert await comes_true(lambda: org_rpm(config, digest) == 5)
        assert gone not in config.snapshot.organizations
        assert gone_digest not in config.snapshot.callers


async def test_a_poll_without_a_change_loads_nothing(world: World) -> None:
    """It compares versions only."""
    await world.agent()
    async with world.config(poll_s=0.1) as config:
        await asyncio.sleep(0.1)
        loads, before = world.repository.loads, config.snapshot
        await asyncio.sleep(0.5)

        assert world.repository.loads == loads
        assert config.snapshot is before


async def test_what_was_missed_without_a_subscription_is_found_when_it_stands(
    world: World,
) -> None:
    """After a break everything is compared, so a message that nobody heard is no loss."""
    org_id, _, digest = await world.agent()
    async with world.config() as config:
        await world.redis.client_kill_filter(_type="pubsub")
        assert await comes_true(lambda: not config.subscribed)

        await world.limit(org_id, 5)
        await world.publish(org_id)

        assert await comes_true(lambda: org_rpm(config, digest) == 5, 3)
        assert config.subscribed


async def test_a_listener_that_fails_in_an_unexpected_way_listens_again(world: World) -> None:
    """Whatever is raised there, changes are heard again soon."""
    org_id, _, digest = await world.agent()
    calls = 0

    async def failing_first() -> AsyncGenerator[str | None, None]:
        nonlocal calls
        calls += 1
        yield None
        if calls == 1:
            raise RuntimeError("nobody expected this")
        async for change in world.changes():
            yield change

    async with world.config(failing_first) as config:
        assert await comes_true(lambda: calls == 2, 3)
        await asyncio.sleep(0.1)
        await world.limit(org_id, 5)
        await world.publish(org_id)

        assert await comes_true(lambda: org_rpm(config, digest) == 5)


async def test_a_change_in_the_moment_of_the_end_does_not_hold_it_back(world: World) -> None:
    """A wait that ends just when it is canceled goes on as if it had not been: it is told again."""
    async with world.config() as config:
        config._wake.set()

        async with asyncio.timeout(5):
            await config.stop()

        assert all(task.done() for task in config._tasks)

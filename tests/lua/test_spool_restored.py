"""Settlements, and a Redis that comes back with older data than it had."""

from pathlib import Path

import pytest
import redis
from running import Look, Running, running, subject
from servers import RedisServer, StartRedis, connect, eventually
from waiting import comes_true

KEYS, DELAY_US = 20_000, 1
"""What has to be loaded takes a second or two, and commands are refused meanwhile."""


async def settled(it: Running, tokens: int) -> None:
    """One request, from its admission until it is counted."""
    decision = await it.limiter.admit(subject(), 10, 0)
    it.limiter.settle(decision.reservation, tokens)
    await it.drain()


@pytest.mark.parametrize("flavor", ["valkey", "redis6"])
async def test_a_refusal_while_loading_is_no_lost_answer(
    start_redis: StartRedis, tmp_path: Path, flavor: str
) -> None:
    """The admission is not in the data that come back, and its settling did not run: it counts."""
    server = start_redis(flavor)
    async with running(server.url) as it:
        await settled(it, 3)
        look = Look(server.url)
        pipeline = look.redis.pipeline(transaction=False)
        for number in range(KEYS):
            pipeline.set(f"filler:{number}", number)
        pipeline.execute()
        look.redis.config_set("appendfsync", "always")
        look.redis.set("filler:last", 1)
        server.copy_data(tmp_path / "copy")
        decision = await it.limiter.admit(subject(), 10, 0)
        server.kill()
        server.replace_data(tmp_path / "copy")
        server.start_slowly(DELAY_US)
        assert eventually(lambda: _refuses(server), 10)

        it.limiter.settle(decision.reservation, 4)

        assert await comes_true(lambda: it.breaker._failures > 0)
        await it.drain()
        assert look.month() == (7, 0)
        assert it.limiter.spool.lost == 0
        look.redis.close()


def _refuses(server: RedisServer) -> bool:
    """Whether it is there, and loading."""
    try:
        with connect(server.url) as client:
            client.ping()
    except redis.BusyLoadingError:
        return True
    except redis.ConnectionError:
        pass
    return False

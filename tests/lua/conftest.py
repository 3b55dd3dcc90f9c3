"""Fixtures of the limiter's tests."""

from collections.abc import AsyncIterator, Iterator

import pytest
import redis
from running import Look, Running, running
from script_calls import Scripts


@pytest.fixture
def scripts(any_redis_url: str) -> Iterator[Scripts]:
    """Both scripts on an empty server of each flavor."""
    with redis.Redis.from_url(any_redis_url) as client:
        yield Scripts(client)


@pytest.fixture
def look(redis_url: str) -> Iterator[Look]:
    """The server of `redis_url`, asked directly."""
    look = Look(redis_url)
    yield look
    look.redis.close()


@pytest.fixture
async def healthy(redis_url: str) -> AsyncIterator[Running]:
    """A limiter that must decide everything, and whose keys and scripts are right."""
    async with running(redis_url) as it:
        yield it
        await it.drain()
        assert (it.limiter.admitted_open, it.limiter.broken, it.limiter.spool.lost) == (0, 0, 0)
        assert not it.breaker.is_open
        assert it.connections_in_use == 0

"""Two organizations under management, and the REST API over them."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from operators import World, world
from rest_server import Rest, serving


@pytest.fixture
async def operated(pool: asyncpg.Pool, redis_url: str) -> AsyncIterator[World]:
    """Two organizations under management."""
    async with world(pool, redis_url) as made:
        made.channel.published.clear()
        yield made


@pytest.fixture
async def rest(operated: World) -> AsyncIterator[Rest]:
    """The REST API of that world, on a port."""
    async with serving(operated) as served:
        yield served

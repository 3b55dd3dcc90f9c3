"""The REST API over two organizations under management."""

from collections.abc import AsyncIterator

import pytest
from limited_traffic import Traffic
from operators import World
from rest_server import Rest, serving


@pytest.fixture
async def traffic(operated: World, redis_url: str) -> AsyncIterator[Traffic]:
    """Traffic on the world's Redis."""
    assert operated
    traffic = Traffic(redis_url)
    yield traffic
    await traffic.close()


@pytest.fixture
async def rest(operated: World) -> AsyncIterator[Rest]:
    """The REST API of that world, on a port."""
    async with serving(operated) as served:
        yield served

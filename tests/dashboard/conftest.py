"""The dashboard's door, over two organizations under management."""

from collections.abc import AsyncIterator

import pytest
from operators import World
from session_server import Door, door


@pytest.fixture
async def entrance(operated: World, redis_url: str) -> AsyncIterator[Door]:
    """Where operators of that world sign in."""
    async with door(operated, redis_url) as opened:
        yield opened

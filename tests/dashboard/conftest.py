"""The dashboard's door, over two organizations under management."""

from collections.abc import AsyncIterator

import pytest
from operators import World
from pages_server import Site, site
from session_server import Door, door


@pytest.fixture
async def entrance(operated: World, redis_url: str) -> AsyncIterator[Door]:
    """Where operators of that world sign in."""
    async with door(operated, redis_url) as opened:
        yield opened


@pytest.fixture
async def served(operated: World, redis_url: str) -> AsyncIterator[Site]:
    """The pages of that world, and browsers to look at them."""
    async with site(operated, redis_url) as opened:
        yield opened

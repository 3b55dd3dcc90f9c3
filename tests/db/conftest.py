"""A migrated database, and the repository on it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from db.migrate import migrate
from db.repository import Repository, connect


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    await migrate(database_url)
    opened = await connect(database_url, min_size=1, max_size=8)
    yield opened
    await opened.close()


@pytest.fixture
def repository(pool: asyncpg.Pool) -> Repository:
    """The repository on that pool."""
    return Repository(pool)

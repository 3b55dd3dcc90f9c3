"""Pages over servers that are frozen: connections stay open, and nothing is answered.

The contract's time: about two seconds for Redis, and a few for Postgres.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest
from html_reader import Page
from operators import world
from pages_server import AGENT, AGENT_LIMITS, CHANGES, MOVING, ORGANIZATION, Site, site
from servers import PostgresServer, RedisServer, StartPostgres, StartRedis
from session_server import SIGN_IN

from dashboard import patience
from db.api_keys import Role
from db.migrate import migrate
from db.repository import connect

REDIS_S = 2.0
"""What the sites' connections wait for an answer of Redis."""
SLACK_S = 3.0
"""For a busy machine."""


@pytest.fixture
async def cold_redis(
    pool: asyncpg.Pool, start_redis: StartRedis
) -> AsyncIterator[tuple[Site, RedisServer]]:
    """The pages, and their Redis to be frozen."""
    server = start_redis()
    async with world(pool, server.url) as made, site(made, server.url) as opened:
        yield opened, server
        server.thaw()


@pytest.fixture
async def cold_postgres(
    start_postgres: StartPostgres, redis_url: str
) -> AsyncIterator[tuple[Site, PostgresServer]]:
    """The pages, and their Postgres to be frozen."""
    server = start_postgres()
    with server.database() as url:
        await migrate(url)
        pool = await connect(url, min_size=1, max_size=4)
        async with world(pool, redis_url) as made, site(made, redis_url) as opened:
            yield opened, server
        pool.terminate()


async def test_a_frozen_redis_leaves_the_last_known_numbers(
    cold_redis: tuple[Site, RedisServer],
) -> None:
    """On every page, after two waits at most: for who asks, and for the numbers."""
    served, server = cold_redis
    for pattern in MOVING:
        await served.shown(pattern, Role.PLATFORM)
    server.freeze()
    began = time.monotonic()

    shown = await asyncio.gather(*(served.shown(each, Role.PLATFORM) for each in MOVING))

    assert time.monotonic() - began < 2 * REDIS_S + SLACK_S
    for html in shown:
        banner = Page(html).one("p", "banner").text
        assert banner.startswith("Limiter open.")
        assert "The numbers are the last known, of " in banner


async def test_a_frozen_postgres_leaves_the_last_known_page(
    cold_postgres: tuple[Site, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be shown from memory says so in time; all of it goes on when it thaws."""
    served, server = cold_postgres
    monkeypatch.setattr(patience, "PATIENCE_S", 0.3)
    await served.shown(ORGANIZATION)
    began = time.monotonic()

    with server.frozen():
        page = Page(await served.shown(ORGANIZATION))
        unseen = [await served.get(pattern) for pattern in (AGENT, CHANGES)]
        sent = await served.send(AGENT_LIMITS, {"version": "1", "requests_per_minute": "1"})
        key = {"key": served.key(Role.READ_ONLY)}
        door = await served.send(SIGN_IN, key, None)
        took_s = time.monotonic() - began

    assert took_s < 9 * patience.PATIENCE_S + SLACK_S
    assert page.one("p", "banner").text.startswith("Database down.")
    for answer in (*unseen, sent):
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert "whether they are changed is shown when it answers again" in answer.text
    assert door.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert "The database does not answer" in door.text
    monkeypatch.undo()
    assert not Page(await served.shown(ORGANIZATION)).all("p", "banner")

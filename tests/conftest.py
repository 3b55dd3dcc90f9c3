"""Fixtures for every test: real servers on free loopback ports, ended with the session."""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from dev_process import Dev, StartDev
from operators import World, world
from servers import PostgresServer, RedisServer, StartPostgres, StartRedis, flavors

from db.migrate import migrate
from db.repository import Repository, connect


@pytest.fixture(scope="session")
def servers_home() -> Iterator[Path]:
    """A folder that only we can read, removed at the end of the session."""
    with tempfile.TemporaryDirectory(prefix="ibex-test-") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def _redis_servers(servers_home: Path) -> Iterator[Callable[[str], RedisServer]]:
    """The session's server of each flavor, started when it is first asked for."""
    started: dict[str, RedisServer] = {}
    with ExitStack() as stack:

        def server(flavor: str) -> RedisServer:
            if flavor not in started:
                new = RedisServer(servers_home / flavor, flavor)
                stack.callback(new.stop)
                new.start()
                started[flavor] = new
            return started[flavor]

        yield server


@pytest.fixture
def redis_server(_redis_servers: Callable[[str], RedisServer]) -> RedisServer:
    """The session's Valkey, emptied: not to be stopped, frozen or killed (`start_redis` is)."""
    server = _redis_servers("valkey")
    server.reset()
    return server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The address of an empty Valkey."""
    return redis_server.url


@pytest.fixture(params=flavors())
def any_redis_url(
    request: pytest.FixtureRequest, _redis_servers: Callable[[str], RedisServer]
) -> str:
    """The address of an empty server of each flavor that this machine has."""
    server = _redis_servers(request.param)
    server.reset()
    return server.url


@pytest.fixture
def start_redis(tmp_path: Path) -> Iterator[StartRedis]:
    """`start_redis(flavor="valkey")`: a server of the test's own, to be treated badly."""
    with ExitStack() as stack:
        count = 0

        def start(flavor: str = "valkey") -> RedisServer:
            nonlocal count
            count += 1
            server = RedisServer(tmp_path / f"{flavor}-{count}", flavor)
            stack.callback(server.stop)
            server.start()
            return server

        yield start


@pytest.fixture(scope="session")
def postgres_server(servers_home: Path) -> Iterator[PostgresServer]:
    """The session's Postgres: not to be stopped, frozen or killed (`start_postgres` is)."""
    server = PostgresServer(servers_home / "postgres")
    with ExitStack() as stack:
        stack.callback(server.stop)
        server.start()
        yield server


@pytest.fixture
def database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a new, empty database."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a new, migrated database."""
    await migrate(database_url)
    opened = await connect(database_url, min_size=1, max_size=8)
    yield opened
    await opened.close()


@pytest.fixture
def repository(pool: asyncpg.Pool) -> Repository:
    """The repository on that pool."""
    return Repository(pool)


@pytest.fixture
async def operated(pool: asyncpg.Pool, redis_url: str) -> AsyncIterator[World]:
    """Two organizations under management."""
    async with world(pool, redis_url) as made:
        made.channel.published.clear()
        yield made


@pytest.fixture
def start_postgres(tmp_path: Path) -> Iterator[StartPostgres]:
    """`start_postgres()`: a server of the test's own, to be treated badly."""
    with ExitStack() as stack:
        count = 0

        def start() -> PostgresServer:
            nonlocal count
            count += 1
            server = PostgresServer(tmp_path / f"postgres-{count}")
            stack.callback(server.stop)
            server.start()
            return server

        yield start


@pytest.fixture
def start_dev(tmp_path: Path) -> Iterator[StartDev]:
    """`start_dev(*options)`: an `ibex dev` on `tmp_path/data`, ended after the test."""
    with ExitStack() as stack:

        def start(*options: str, data: Path = tmp_path / "data", **how: Any) -> Dev:
            dev = Dev(data, *options, **how)
            stack.callback(dev.close)
            return dev

        yield start

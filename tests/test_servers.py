"""What the fixtures for real servers promise to every other test."""

import os
import signal

import asyncpg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import PostgresServer, RedisServer, StartRedis, connect, eventually, fetch

COUNT = "SELECT count(*) FROM pg_database"
NUMBERS = "CREATE TABLE numbers AS SELECT generate_series(1, 1000) AS number"


def test_a_frozen_server_answers_again_when_thawed(start_redis: StartRedis) -> None:
    """What the outage tests rely on: frozen is silent, not closed, and it passes."""
    server = start_redis()
    with redis.Redis.from_url(
        server.url, socket_timeout=0.2, retry=Retry(NoBackoff(), 0)
    ) as client:
        server.freeze()
        with pytest.raises(redis.TimeoutError):
            client.ping()

        server.thaw()

        assert eventually(client.ping)


def test_every_flavor_answers(any_redis_url: str) -> None:
    """The servers that tests are run on are there."""
    with connect(any_redis_url) as client:
        assert client.ping()


async def test_each_test_has_a_database_of_its_own(postgres_server: PostgresServer) -> None:
    """A database is empty, and gone afterwards even when someone is still connected."""
    before = await fetch(postgres_server.url, COUNT)
    with postgres_server.database() as url:
        await fetch(url, NUMBERS)
        lingering = await asyncpg.connect(url)
    with postgres_server.database() as url:
        assert await fetch(url, "SELECT to_regclass('numbers')") is None

    assert await fetch(postgres_server.url, COUNT) == before
    lingering.terminate()


def test_a_server_of_the_session_starts_each_test_as_new(redis_server: RedisServer) -> None:
    """Data, scripts and configuration of one test do not reach the next."""
    with connect(redis_server.url) as client:
        client.set("left", 1)
        sha = client.script_load("return 1")
        client.config_set("maxmemory", "1mb")

        redis_server.reset()

        assert client.dbsize() == 0
        assert client.script_exists(sha) == [False]
        assert client.config_get("maxmemory") == {"maxmemory": "0"}


def test_a_signal_that_ends_the_session_is_not_the_servers(
    redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    """Ctrl-C reaches pytest alone, which then stops the servers."""
    os.kill(redis_server.pid, signal.SIGCONT)  # it is there
    assert os.getsid(redis_server.pid) != os.getsid(0)
    assert os.getsid(postgres_server.pid) != os.getsid(0)

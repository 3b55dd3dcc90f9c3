"""One command, one attempt, one connection: what fails is told apart, fast, and never repeated."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis
from running import Look, through
from servers import StartRedis
from tcp_proxy import TcpProxy

from lua.connection import RedisAddress, connect, refuse_cluster
from lua.errors import LimiterBrokenError, LimiterUnavailableError
from lua.scripts import ADMIT, answers_writes, call

TIMEOUT_S = 0.3
SOON_S = 2 * TIMEOUT_S


@pytest.fixture
async def proxy(redis_url: str) -> AsyncIterator[TcpProxy]:
    """The way to the server of `redis_url`."""
    async with TcpProxy(urlsplit(redis_url).port or 0) as proxy:
        yield proxy


@pytest.fixture
async def client(redis_url: str, proxy: TcpProxy) -> AsyncIterator[Redis]:
    """A client behind the proxy, with one connection made."""
    client = connect(RedisAddress(through(redis_url, proxy.port)), timeout_s=TIMEOUT_S)
    assert await call(client, "PING") in (b"PONG", "PONG")
    yield client
    await client.aclose()


@pytest.mark.parametrize("loss", ["black_hole", "cut_replies"])
async def test_a_command_whose_reply_got_lost_runs_once(
    client: Redis, proxy: TcpProxy, look: Look, loss: str
) -> None:
    """It says that it may have run, in time, and the next command gets an answer of its own."""
    getattr(proxy, loss)()
    async with asyncio.timeout(SOON_S):
        with pytest.raises(LimiterUnavailableError) as caught:
            await call(client, "INCR", "count")
    assert caught.value.may_have_run
    proxy.heal()

    assert await call(client, "GET", "other") is None
    assert look.redis.get("count") == b"1"


async def test_nobody_there_is_said_at_once(start_redis: StartRedis) -> None:
    """A refused connection: nothing ran, and no waiting for better times."""
    server = start_redis()
    server.stop()
    client = connect(RedisAddress(server.url), timeout_s=TIMEOUT_S)
    async with asyncio.timeout(SOON_S):
        with pytest.raises(LimiterUnavailableError) as caught:
            await call(client, "PING")
        assert not await answers_writes(client, "probe")
        with pytest.raises(LimiterUnavailableError):
            await refuse_cluster(client)

    assert not caught.value.may_have_run
    await client.aclose()


async def test_connections_that_the_server_closed_cost_no_call(redis_url: str, look: Look) -> None:
    """After a restart each call finds a new connection, and none is spent on finding out."""
    client = connect(RedisAddress(redis_url), timeout_s=5)
    await asyncio.gather(*[call(client, "PING") for _ in range(3)])
    look.redis.client_kill_filter(_type="normal", skipme=True)
    await asyncio.sleep(0.1)

    replies = await asyncio.gather(*[call(client, "PING") for _ in range(3)])

    assert set(replies) <= {b"PONG", "PONG"}
    await client.aclose()


async def test_a_reply_that_comes_late_is_nobody_elses(
    client: Redis, proxy: TcpProxy, look: Look
) -> None:
    """The connection that it would have come on is gone; each command gets its own reply."""
    look.redis.mset({f"key-{i}": i for i in range(20)})
    proxy.delay_replies(TIMEOUT_S * 1.3)
    with pytest.raises(LimiterUnavailableError):
        await call(client, "GET", "key-0")
    proxy.heal()

    for i in range(1, 20):
        assert int(await call(client, "GET", f"key-{i}")) == i
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("flavor", ["valkey", "redis6"])
async def test_a_server_that_runs_a_script_without_end_is_an_outage(
    start_redis: StartRedis, flavor: str
) -> None:
    """BUSY: it is there, and answers nobody."""
    server = start_redis(flavor)
    look = Look(server.url)
    look.redis.config_set("lua-time-limit", 20)
    client = connect(RedisAddress(server.url), timeout_s=5)
    endless = asyncio.create_task(call(client, "EVAL", "while true do end", 0))
    await asyncio.sleep(0.1)

    with pytest.raises(LimiterUnavailableError, match=r"BUSY|[Bb]usy") as caught:
        await call(client, "INCR", "count")

    assert not caught.value.may_have_run
    look.redis.script_kill()
    with pytest.raises(LimiterBrokenError):
        await endless
    look.redis.close()
    await client.aclose()


async def test_a_server_that_lets_us_do_nothing_is_an_outage(redis_url: str, look: Look) -> None:
    """No right to the command, and no right to come in: waited out, as a key may be rotated."""
    look.redis.acl_setuser("weak", enabled=True, passwords=["+pw"], commands=["+ping"])
    port = urlsplit(redis_url).port
    for user, command in (("weak:pw", "SET"), ("weak:wrong", "PING")):
        client = connect(RedisAddress(f"redis://{user}@127.0.0.1:{port}/0"), timeout_s=TIMEOUT_S)
        with pytest.raises(LimiterUnavailableError) as caught:
            await call(client, command, "key", "value")
        assert not caught.value.may_have_run
        await client.aclose()
    look.redis.acl_deluser("weak")


async def test_a_script_error_is_no_outage(client: Redis) -> None:
    """Redis is well; somebody has to look at what it was told to do."""
    with pytest.raises(LimiterBrokenError):
        await ADMIT.run(client, ["global"], ["not a number"])


def test_an_address_shows_no_password() -> None:
    """Neither in a log nor in a traceback."""
    address = RedisAddress("rediss://user:secret@redis.example:6379/0", ca_file="ca.pem")

    assert "secret" not in repr(address)
    assert "redis.example:6379" in repr(address)

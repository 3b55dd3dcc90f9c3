import asyncio
import time
import traceback

import pytest
from servers import StartPostgres

from db.connection import borrowed, connect, connection
from db.errors import DatabaseUnavailable

PASSWORD = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"postgres://user:{PASSWORD}/x@127.0.0.1:1/db",
        f"postgres://user:{PASSWORD}#x@127.0.0.1:1/db",
        f"postgres://user:{PASSWORD}?x@127.0.0.1:1/db",
        f"postgres://user:x@{PASSWORD}@127.0.0.1:1/db",
        f"postgres://user:{PASSWORD}@[::1/db",
        f"postgres://user:{PASSWORD}@127.0.0.1:port/db",
        f"postgres://user:{PASSWORD}@127.0.0.1:1/db?sslmode",
        f"postgres://user:{PASSWORD}@127.0.0.1:1/db?sslmode=perhaps",
        f"postgres://user:{PASSWORD}@127.0.0.1:1/db",
        f"postgres://user:{PASSWORD}@nowhere.invalid:1/db",
        f"mysql://user:{PASSWORD}@127.0.0.1:1/db",
        PASSWORD,
        "",
    ],
)
async def test_password_is_never_part_of_the_message(url: str) -> None:
    """However a URL is mistyped, the error is one line, and does not quote the password."""
    for attempt in (connect(url, min_size=1, max_size=1), connection(url).__aenter__()):
        with pytest.raises(DatabaseUnavailable) as error:
            await attempt

        assert PASSWORD not in "".join(traceback.format_exception_only(error.value))
        assert "\n" not in str(error.value)


async def test_pool_without_a_server_opens_and_fails_when_it_is_used() -> None:
    """A pool of at least 0 connections needs no server yet, so that a process can start."""
    pool = await connect("postgres://user@127.0.0.1:1/db", min_size=0, max_size=1)

    with pytest.raises(OSError, match="127"):
        await pool.fetchval("SELECT 1")

    await pool.close()


async def test_a_frozen_server_is_an_error_in_time(start_postgres: StartPostgres) -> None:
    """Also where each connection of the pool is stuck, and new ones are; it goes on afterwards."""
    server = await asyncio.to_thread(start_postgres)
    pool = await connect(server.url, min_size=1, max_size=2)

    async def use(within_s: float) -> int:
        async with borrowed(pool, within_s) as taken, taken.transaction():
            return int(await taken.fetchval("SELECT 1"))

    assert await asyncio.gather(use(5), use(5)) == [1, 1]
    with server.frozen():
        began = time.monotonic()
        ended = await asyncio.gather(*(use(0.5) for _ in range(5)), return_exceptions=True)
        took_s = time.monotonic() - began

    assert [type(error) for error in ended] == [DatabaseUnavailable] * 5
    assert took_s < 2
    assert await use(5) == 1
    await pool.close()

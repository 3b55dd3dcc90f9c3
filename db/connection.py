"""Opening connections to Postgres. A bad URL is refused in words that do not quote it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from db.errors import DatabaseUnavailable, mapped

_SCHEMES = {"postgres", "postgresql"}
_CONNECT_TIMEOUT_S = 10
_COMMAND_TIMEOUT_S = 30


async def connect(database_url: str, *, min_size: int, max_size: int) -> asyncpg.Pool:
    """Open a pool. `min_size` connections are made now, the others when they are needed.

    Raises DatabaseUnavailable. Statements are not cached and every use of the pool is one
    transaction, so that a pooler that hands out servers per transaction may sit in between.
    """
    _require_usable(database_url)
    with mapped():
        return await asyncpg.create_pool(
            database_url,
            min_size=min_size,
            max_size=max_size,
            timeout=_CONNECT_TIMEOUT_S,
            command_timeout=_COMMAND_TIMEOUT_S,
            statement_cache_size=0,
        )


async def disconnect(pool: asyncpg.Pool, within_s: float) -> None:
    """Close a pool in order, or, where the server does not answer in time, without it."""
    closing = asyncio.ensure_future(pool.close())
    done, _ = await asyncio.wait({closing}, timeout=within_s)
    if not done:
        pool.terminate()
    with suppress(Exception):  # cut off or not, it is closed
        await closing


@asynccontextmanager
async def borrowed(pool: asyncpg.Pool, within_s: float) -> AsyncIterator[asyncpg.Connection]:
    """Take a connection from the pool for a while. Raises DatabaseUnavailable, in time.

    A server that is frozen would also be waited for to roll back, and to confirm that it has
    canceled: so the connection is cut, and whatever waits for it fails at once.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    with mapped():
        taken = await pool.acquire(timeout=within_s)
        timer = loop.call_at(end, taken.terminate)
        try:
            yield taken
        except asyncpg.ConnectionDoesNotExistError as error:
            if loop.time() >= end:
                raise TimeoutError(f"no answer in {within_s:g} s") from error
            raise
        finally:
            timer.cancel()
            await pool.release(taken)


@asynccontextmanager
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open one connection for a while. Raises DatabaseUnavailable."""
    _require_usable(database_url)
    with mapped():
        opened = await asyncpg.connect(
            database_url,
            timeout=_CONNECT_TIMEOUT_S,
            command_timeout=_COMMAND_TIMEOUT_S,
            statement_cache_size=0,
        )
        try:
            yield opened
        finally:
            await opened.close()


def _require_usable(database_url: str) -> None:
    """Refuse what the driver would quote in its error: a password may be in the wrong place."""
    try:
        parts = urlsplit(database_url)
        parse_qsl(parts.query, strict_parsing=bool(parts.query))
        usable = parts.scheme in _SCHEMES and parts.port != 0 and parts.netloc.count("@") <= 1
    except ValueError:
        usable = False
    if not usable:
        raise DatabaseUnavailable(
            "the database URL cannot be read: it is postgres://user:password@host:port/name, "
            "with /, ?, #, @ and % in user and password percent-encoded"
        )

"""The scripts: read once, called by their SHA-1, sent in full where the server has lost them."""

import asyncio
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from lua.errors import LimiterError, limiter_errors

Argument = bytes | str | int


class Script:
    """One `.lua` file with series.lua in front. Replies are flat lists of integers; that of
    uses.lua has a string in it, too.
    """

    def __init__(self, name: str) -> None:
        folder = resources.files("lua")
        shared = folder.joinpath("series.lua").read_text("utf-8")
        self.source: Final = shared + folder.joinpath(f"{name}.lua").read_text("utf-8")
        self.sha: Final = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    async def load(self, client: Redis) -> None:
        """Put the script into the server's cache."""
        await call(client, "SCRIPT", "LOAD", self.source)

    async def run(
        self, client: Redis, keys: Sequence[Argument], args: Sequence[Argument]
    ) -> list[int]:
        """Run it once. Raises LimiterUnavailableError or LimiterBrokenError.

        NOSCRIPT means that nothing ran (restart, flush, eviction, a promoted replica), so this one
        error is answered by the same call in full.
        """
        try:
            return await call(client, "EVALSHA", self.sha, len(keys), *keys, *args)  # type: ignore[no-any-return]
        except NoScriptError:
            return await call(client, "EVAL", self.source, len(keys), *keys, *args)  # type: ignore[no-any-return]


ADMIT: Final = Script("admit")
COMMIT: Final = Script("commit")
RECORD: Final = Script("record")
USES: Final = Script("uses")
RAISE: Final = Script("raise")


async def call(client: Redis, *command: Argument) -> Any:
    """One command on one connection of the client's pool: sent once, never repeated.

    A connection that failed in any way, or whose server refuses to write, is dropped: an answer
    that comes late must not be taken for that of the next command, and a demoted primary must not
    be asked again.
    """
    packed = pack_command(command)  # type: ignore[arg-type]  # a tuple of any length
    pool = client.connection_pool
    with limiter_errors(may_have_run=False):
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    keep = False
    # The driver would make a task for each sending, and another timer, to enforce this.
    within_s, connection.socket_timeout = connection.socket_timeout, None
    try:
        with limiter_errors(may_have_run=True):
            async with asyncio.timeout(within_s):
                await connection.send_packed_command(packed)
                reply = await connection.read_response()
        keep = True
    except NoScriptError:
        keep = True
        raise
    finally:
        connection.socket_timeout = within_s
        if not keep:
            await connection.disconnect(nowait=True)
        await pool.release(connection)
    return reply


async def answers_writes(client: Redis, key: str) -> bool:
    """Whether Redis takes a write now. `key` exists for a minute afterwards."""
    try:
        await call(client, "SET", key, 1, "PX", 60_000)
    except LimiterError:
        return False
    return True

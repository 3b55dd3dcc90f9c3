"""Operators' sessions, and how often somebody has tried to sign in, kept for all workers.

What is stored tells nobody how to sign in: a session is found by the SHA-256 of its token, a client
by that of its address. Everything raises LimiterError where Redis cannot be asked.
"""

import hashlib
from uuid import UUID

import msgspec
from redis.asyncio import Redis

from lua import keys
from lua.decision import Gate
from lua.errors import LimiterUnavailableError, limiter_errors
from lua.scripts import Argument, call


class Session(msgspec.Struct, frozen=True):
    """Whose key has signed in, and when (Unix ms)."""

    key_id: UUID
    created_ms: int


class SessionStore:
    """Sessions by their token. While the gate is open Redis is not asked: nobody has to wait."""

    def __init__(self, client: Redis, gate: Gate) -> None:
        self._client = client
        self._gate = gate

    async def put(self, token: str, session: Session, idle_ms: int) -> None:
        """Store a new session, which ends when it has not been found for so long."""
        value = msgspec.json.encode(session)
        await self._ask("SET", keys.session(_digest(token)), value, "PX", idle_ms)

    async def find(self, token: str, idle_ms: int) -> Session | None:
        """Return the session, and let it live on. What is no session of ours is none."""
        value = await self._ask("GETEX", keys.session(_digest(token)), "PX", idle_ms)
        try:
            return None if value is None else msgspec.json.decode(value, type=Session)
        except msgspec.MsgspecError:
            return None

    async def delete(self, token: str) -> None:
        """End a session. One that is not there is ended already."""
        await self._ask("DEL", keys.session(_digest(token)))

    async def add_attempts(self, client: str, count: int, keep_ms: int) -> int:
        """Add to a client's attempts, and return how many there are by now.

        They are forgotten when none was added for `keep_ms`.
        """
        self._require_asking()
        key = keys.sign_in_attempts(_digest(client))
        with limiter_errors(may_have_run=True):
            async with self._client.pipeline(transaction=True) as pipeline:
                pipeline.incrby(key, count)
                pipeline.pexpire(key, keep_ms)
                attempts, _ = await pipeline.execute()
        return int(attempts)

    async def _ask(self, *command: Argument) -> bytes | None:
        self._require_asking()
        return await call(self._client, *command)  # type: ignore[no-any-return]  # of these commands

    def _require_asking(self) -> None:
        if self._gate.is_open:
            raise LimiterUnavailableError("Redis is not asked now", may_have_run=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

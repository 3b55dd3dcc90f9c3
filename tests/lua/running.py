"""A limiter as the gateway composes it, and a look at what its traffic left in Redis."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import redis
from script_calls import ORG

from gateway.breaker import Breaker
from lua import keys
from lua.connection import RedisAddress, connect
from lua.decision import Subject
from lua.limiter import LuaLimiter
from lua.scripts import answers_writes

PATIENT_S = 2.0


@dataclass
class Running:
    """The limiter, its gate, and its pool."""

    limiter: LuaLimiter
    breaker: Breaker
    pool: Any

    @property
    def connections_in_use(self) -> int:
        """Taken from the pool and not given back."""
        return len(self.pool._in_use_connections)

    async def drain(self) -> None:
        """Everything settled is in Redis."""
        assert await self.limiter.spool.drain(10)


@asynccontextmanager
async def running(
    url: str,
    *,
    deadline_s: float = PATIENT_S,
    timeout_s: float = 5.0,
    clock_ms: Callable[[], int] = lambda: -1,
) -> AsyncIterator[Running]:
    """A limiter on that server, until the end of the block."""
    client = connect(RedisAddress(url), timeout_s=timeout_s)
    breaker = Breaker(lambda: answers_writes(client, keys.PROBE))
    limiter = LuaLimiter(client, breaker, deadline_s=deadline_s, lease_s=60, clock_ms=clock_ms)
    try:
        yield Running(limiter, breaker, client.connection_pool)
    finally:
        await limiter.close(5)
        await breaker.close()
        await client.aclose()


def through(url: str, port: int) -> str:
    """The same server, by way of a proxy's port."""
    return url.rpartition(":")[0] + f":{port}/0"


def subject(
    org: str = ORG,
    agent: str = "a1",
    *,
    rpm: tuple[int | None, int | None, int | None] = (None, None, None),
    ceiling: int | None = None,
) -> Subject:
    """Who asks; no limit unless one is named."""
    return Subject.of((org, agent), rpm, ceiling)


class Look:
    """Redis itself, asked directly."""

    def __init__(self, url: str) -> None:
        self.redis: Any = redis.Redis.from_url(url)

    def month(self, org: str = ORG) -> tuple[int, int]:
        """Tokens used and held, over all months."""
        fields = {
            name: int(value)
            for name, value in self.redis.hgetall(keys.month_tokens(org)).items()
            if name != b"since"
        }
        held = sum(value for name, value in fields.items() if name.endswith(b":held"))
        return sum(fields.values()) - held, held

    def open_reservations(self, org: str = ORG) -> int:
        """Members whose lease runs."""
        return int(self.redis.zcount(keys.inflight(org), "(0", "+inf"))

    def script_calls(self) -> int:
        """EVALSHA and EVAL since the last CONFIG RESETSTAT."""
        stats = self.redis.info("commandstats")
        return sum(
            stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval")
        )

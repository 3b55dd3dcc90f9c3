"""A client of the limiter in a process of its own: admits and settles, then says what that took.

Arguments: URL of the server, its pid, way, waiting, seconds. `gathered` is the limiter as the
gateway uses it; `single` is redis-py with one EVALSHA for each admit and one for each settling.
`waiting` callers ask again and again, each time for one of 200 agents in 20 organizations, drawn by
lot; all their limits are set and never reached. Prints PairFigures as JSON. Fails if anything was
admitted open, or if Redis has not counted every token once.
"""

import asyncio
import itertools
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec
import psutil  # type: ignore[import-untyped]  # ships no types
import uvloop
from redis.asyncio import Redis

from gateway.breaker import Breaker
from lua import keys
from lua.batch import Keys
from lua.connection import RedisAddress, connect
from lua.decision import Subject
from lua.limiter import LuaLimiter
from lua.scripts import ADMIT, COMMIT, answers_writes
from lua.usage import live

ORGANIZATIONS = 20
AGENTS_EACH = 10
NO_BOUND = 10**12
NEEDED, EXTRA, USED = 100, 512, 250  # tokens
WARM_UP_S = 1.0
PATIENCE_S = 10.0
MONTH = "0000-00"
"""Of which nothing is known."""
LEASE_S = 600


class PairFigures(msgspec.Struct, frozen=True):
    """What one admit and its settling took; latencies are of the admit alone."""

    pairs_per_s: float
    p50_ms: float
    p99_ms: float
    client_us: float
    """CPU of the client's process, driving loop included."""
    server_us: float
    """Time in the scripts, by the server's own statistics."""
    server_process_us: float
    """CPU of the server's process: sockets, parsing and append-only file included."""


class Way(Protocol):
    """How pairs get to the server."""

    async def pair(self, subject: Subject) -> float:
        """Admit one request and settle it; returns the seconds that the admit took."""

    async def finish(self) -> None:
        """Wait until every settling is counted."""


class Gathered:
    """The limiter as the gateway composes it, with time enough for a busy machine."""

    def __init__(self, client: Redis) -> None:
        breaker = Breaker(lambda: answers_writes(client, keys.PROBE))
        self._limiter = LuaLimiter(client, breaker, deadline_s=PATIENCE_S, lease_s=LEASE_S)

    async def pair(self, subject: Subject) -> float:
        began = time.perf_counter()
        decision = await self._limiter.admit(subject, NEEDED, EXTRA)
        took = time.perf_counter() - began
        assert decision.admitted
        self._limiter.settle(decision.reservation, USED)
        return took

    async def finish(self) -> None:
        assert await self._limiter.spool.drain(PATIENCE_S)
        assert self._limiter.admitted_open == 0
        assert self._limiter.broken == self._limiter.spool.lost == 0


class Single:
    """The same scripts as redis-py offers to call them."""

    def __init__(self, client: Redis) -> None:
        self._call: Any = client.evalsha
        self._ids = map("single{}".format, itertools.count())

    async def pair(self, subject: Subject) -> float:
        began = time.perf_counter()
        batch, id_ = Keys(), next(self._ids)
        places = batch.of(subject)
        head = (-1, LEASE_S * 1000, MONTH)
        args = (*head, *places, *subject.limit_args, NEEDED, EXTRA, id_, 0)
        reply = await self._call(ADMIT.sha, len(batch.all), *batch.all, *args)
        took = time.perf_counter() - began
        now_ms, _, _, admitted, *_ = reply
        assert admitted
        member = f"{id_}:{now_ms}:{NEEDED + EXTRA}"
        args = (-1, MONTH, *places, member, USED, 0, 0, 0)
        await self._call(COMMIT.sha, len(batch.all), *batch.all, *args)
        return took

    async def finish(self) -> None:
        """Each was waited for."""


WAYS: dict[str, type[Gathered | Single]] = {"gathered": Gathered, "single": Single}


class Spent(msgspec.Struct, frozen=True):
    """Seconds since some beginning: of the clock, of CPU, and in scripts."""

    clock: float
    client: float
    server: float
    scripts: float


async def spent(client: Redis, server: psutil.Process) -> Spent:
    """Read every meter."""
    stats: dict[str, Any] = await client.info("commandstats")
    own = resource.getrusage(resource.RUSAGE_SELF)
    theirs = server.cpu_times()
    scripts = (stats.get(f"cmdstat_{name}", {"usec": 0})["usec"] for name in ("evalsha", "eval"))
    return Spent(
        time.perf_counter(),
        own.ru_utime + own.ru_stime,
        theirs.user + theirs.system,
        sum(scripts) / 1e6,
    )


def subjects() -> list[Subject]:
    """Every agent; the first ones are of different organizations."""
    return [
        Subject.of(
            (f"00000000-0000-4000-8000-{org:012}", f"00000000-0000-4000-9000-{agent:012}"),
            (NO_BOUND, NO_BOUND, NO_BOUND),
            NO_BOUND,
        )
        for agent in range(AGENTS_EACH)
        for org in range(ORGANIZATIONS)
    ]


async def work(way: Way, draw: Callable[[], Subject], waiting: int, seconds: float) -> list[float]:
    """Keep `waiting` admits waiting for so long; returns what each took, in seconds."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def caller() -> None:
        while time.perf_counter() < end:
            took.append(await way.pair(draw()))

    await asyncio.gather(*(caller() for _ in range(waiting)))
    await way.finish()
    return took


async def require_counted(client: Redis, pairs: int) -> None:
    """Every token once, and none held any more."""
    months = await live(client, [(it.org_id, None) for it in subjects()[:ORGANIZATIONS]])
    assert sum(month.tokens_used for month in months) == pairs * USED
    assert sum(month.tokens_held for month in months) == 0


async def main(url: str, server_pid: str, way_name: str, waiting: str, seconds: str) -> None:
    """See the module."""
    server = psutil.Process(int(server_pid))
    client = connect(RedisAddress(url), timeout_s=PATIENCE_S)
    await client.flushdb()
    for script in (ADMIT, COMMIT):
        await script.load(client)
    way: Way = WAYS[way_name](client)
    draw = partial(random.Random(0).choice, subjects())
    warm_up = await work(way, draw, int(waiting), WARM_UP_S)
    before = await spent(client, server)
    took = await work(way, draw, int(waiting), float(seconds))
    after = await spent(client, server)
    await require_counted(client, len(warm_up) + len(took))
    await client.aclose()
    took.sort()
    us_each = 1e6 / len(took)
    figures = PairFigures(
        pairs_per_s=len(took) / (after.clock - before.clock),
        p50_ms=took[len(took) // 2] * 1000,
        p99_ms=took[len(took) * 99 // 100] * 1000,
        client_us=(after.client - before.client) * us_each,
        server_us=(after.scripts - before.scripts) * us_each,
        server_process_us=(after.server - before.server) * us_each,
    )
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))

"""What is done to the servers behind the gateway, each for a short while."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from time import monotonic

import redis
from servers import PostgresServer, RedisServer, connect
from soak_upstream import Mood, Upstream


@dataclass
class Patients:
    """Who suffers."""

    redis: RedisServer
    postgres: PostgresServer
    upstream: Upstream


Fault = Callable[[Patients], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def redis_frozen(patients: Patients) -> AsyncIterator[None]:
    """Connections stay open and nothing is answered."""
    patients.redis.freeze()
    try:
        yield
    finally:
        patients.redis.thaw()


@asynccontextmanager
async def redis_stopped(patients: Patients) -> AsyncIterator[None]:
    """It is refused, and comes back with its data."""
    await asyncio.to_thread(patients.redis.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(patients.redis.start)


@asynccontextmanager
async def redis_killed(patients: Patients) -> AsyncIterator[None]:
    """The same without an orderly end: what it has answered is in its append-only file."""
    await asyncio.to_thread(patients.redis.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(patients.redis.start)


@asynccontextmanager
async def scripts_flushed(patients: Patients) -> AsyncIterator[None]:
    """The server forgets every script."""
    await asyncio.to_thread(_command, patients, "SCRIPT", "FLUSH")
    yield


@asynccontextmanager
async def redis_clients_killed(patients: Patients) -> AsyncIterator[None]:
    """Every connection breaks, whatever is under way on it."""
    await asyncio.to_thread(_command, patients, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    yield


@asynccontextmanager
async def subscribers_killed(patients: Patients) -> AsyncIterator[None]:
    """Nobody is told of changes any more."""
    await asyncio.to_thread(_command, patients, "CLIENT", "KILL", "TYPE", "pubsub")
    yield


@asynccontextmanager
async def postgres_frozen(patients: Patients) -> AsyncIterator[None]:
    """Each of its processes."""
    with patients.postgres.frozen():
        yield


@asynccontextmanager
async def postgres_stopped(patients: Patients) -> AsyncIterator[None]:
    """It is refused, and comes back."""
    await asyncio.to_thread(patients.postgres.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(patients.postgres.start)


@asynccontextmanager
async def upstream_refused(patients: Patients) -> AsyncIterator[None]:
    """Its connections are reset, and no new ones accepted."""
    await patients.upstream.refuse()
    try:
        yield
    finally:
        await patients.upstream.listen()


@asynccontextmanager
async def upstream_silent(patients: Patients) -> AsyncIterator[None]:
    """It takes requests and does not answer."""
    async with _mood(patients, Mood.SILENT):
        yield


@asynccontextmanager
async def upstream_resetting(patients: Patients) -> AsyncIterator[None]:
    """It resets each connection, before an answer or in the middle of it."""
    async with _mood(patients, Mood.RESETTING):
        yield


@asynccontextmanager
async def _mood(patients: Patients, mood: Mood) -> AsyncIterator[None]:
    patients.upstream.mood = mood
    try:
        yield
    finally:
        patients.upstream.mood = Mood.WELL


def _command(patients: Patients, *words: str) -> None:
    with connect(patients.redis.url) as client:
        try:
            client.execute_command(*words)
        except redis.ConnectionError as error:  # such a command may end its own connection
            if "kill" not in " ".join(words).lower():
                raise RuntimeError(f"{words} was not carried out") from error


FAULTS: tuple[Fault, ...] = (
    redis_frozen, redis_stopped, redis_killed, scripts_flushed, redis_clients_killed,
    subscribers_killed, postgres_frozen, postgres_stopped, upstream_refused, upstream_silent,
    upstream_resetting,
)  # fmt: skip
UPSTREAM = {"upstream_refused", "upstream_silent", "upstream_resetting"}
SHORTEST_S = 1.2
"""Long enough for a call to Redis to be given up."""
LONGEST_S = 3.0


@dataclass
class Happened:
    """The faults that there were: name, begin and end on the monotonic clock."""

    faults: list[tuple[str, float, float]] = field(default_factory=list)

    def upstream_at(self, since: float, until: float) -> bool:
        """Whether the upstream was made to fail within this time, or just before."""
        return any(
            name in UPSTREAM and began <= until and since <= ended + 1.0
            for name, began, ended in self.faults
        )


async def torment(patients: Patients, random: Random, until: float, happened: Happened) -> None:
    """One fault after the other, each kind before any comes again, with quiet between them."""
    order: list[Fault] = []
    while monotonic() < until:
        order = order or random.sample(FAULTS, k=len(FAULTS))
        fault = order.pop()
        began = monotonic()
        async with fault(patients):
            await asyncio.sleep(random.uniform(SHORTEST_S, LONGEST_S))
        happened.faults.append((fault.__name__, began, monotonic()))
        await asyncio.sleep(random.uniform(0.5, LONGEST_S))

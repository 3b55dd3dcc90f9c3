"""The limiter while Redis is away, and afterwards: nobody hangs, every count is exact."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import pytest
from running import Look, Running, running, subject
from script_calls import ORG
from servers import RedisServer, StartRedis
from waiting import comes_true

from gateway.breaker import FAILURES_TO_OPEN
from lua import keys

DEADLINE_S = 0.1
HANGS_S = 10 * DEADLINE_S
RECOVERS_S = 2.0
HELD, USED = 5, 3


@dataclass
class Traffic:
    """What a few busy agents saw."""

    waits_s: list[float] = field(default_factory=list)
    decided: int = 0
    opened: int = 0

    async def agent(self, it: Running, name: str) -> None:
        """Admit and settle until cancelled."""
        loop = asyncio.get_running_loop()
        asked = subject(agent=name)
        while True:
            before = loop.time()
            decision = await it.limiter.admit(asked, HELD, 0)
            self.waits_s.append(loop.time() - before)
            it.limiter.settle(decision.reservation, USED)
            if decision.is_open:
                self.opened += 1
            else:
                self.decided += 1
            await asyncio.sleep(0.01)

    async def decided_again(self) -> bool:
        """Whether somebody is decided within the time that a recovery may take."""
        before = self.decided
        return await comes_true(lambda: self.decided > before, RECOVERS_S)


@asynccontextmanager
async def traffic(it: Running) -> AsyncIterator[Traffic]:
    """Ten agents at work, until the end of the block."""
    seen = Traffic()
    agents = [asyncio.create_task(seen.agent(it, f"a{i}")) for i in range(10)]
    try:
        assert await comes_true(lambda: seen.decided >= 50)
        yield seen
    finally:
        for agent in agents:
            agent.cancel()
        await asyncio.gather(*agents, return_exceptions=True)


def run(server: RedisServer, *command: object) -> None:
    """One command, by a connection of its own."""
    look = Look(server.url)
    look.redis.execute_command(*command)
    look.redis.close()


def out_of_memory(server: RedisServer) -> None:
    """Writes are refused."""
    run(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    run(server, "CONFIG", "SET", "maxmemory", 1)


OUTAGES: dict[str, tuple[Callable[[RedisServer], None], Callable[[RedisServer], None]]] = {
    "refused": (RedisServer.stop, RedisServer.start),
    "killed": (RedisServer.kill, RedisServer.start),
    "frozen": (RedisServer.freeze, RedisServer.thaw),
    "read-only": (
        lambda server: run(server, "REPLICAOF", "127.0.0.1", 1),
        lambda server: run(server, "REPLICAOF", "NO", "ONE"),
    ),
    "out of memory": (out_of_memory, lambda server: run(server, "CONFIG", "SET", "maxmemory", 0)),
}
LEGS = [
    *(("valkey", outage) for outage in OUTAGES),
    ("redis6", "read-only"),
    ("redis6", "out of memory"),
]


@pytest.mark.parametrize(("flavor", "outage"), LEGS)
async def test_traffic_flows_through_an_outage(
    start_redis: StartRedis, flavor: str, outage: str
) -> None:
    """Everybody is answered at once, decided again soon after, and each settling counts once."""
    server = start_redis(flavor)
    breaks, mends = OUTAGES[outage]
    async with running(server.url, deadline_s=DEADLINE_S, timeout_s=0.4) as it:
        async with traffic(it) as seen:
            await asyncio.to_thread(breaks, server)
            assert await comes_true(lambda: it.breaker.is_open)
            during = seen.opened
            assert await comes_true(lambda: seen.opened > during + 50)
            await asyncio.to_thread(mends, server)
            assert await seen.decided_again()
            after = seen.decided
            assert await comes_true(lambda: seen.decided > after + 50)
        await it.drain()

        assert max(seen.waits_s) < HANGS_S
        assert it.limiter.admitted_open >= seen.opened
        assert (it.limiter.broken, it.limiter.spool.lost) == (0, 0)
        look = Look(server.url)
        used, held = look.month()
        assert used == USED * len(seen.waits_s)
        assert held == HELD * look.open_reservations()
        look.redis.close()


async def test_an_open_breaker_costs_nothing(start_redis: StartRedis) -> None:
    """A thousand requests behind a frozen server, once that is known, do not wait at all."""
    server = start_redis()
    async with running(server.url, deadline_s=DEADLINE_S, timeout_s=0.4) as it:
        server.freeze()
        async with asyncio.timeout(10):
            while not it.breaker.is_open:
                await it.limiter.admit(subject(), 0, 0)
        loop = asyncio.get_running_loop()
        before = loop.time()

        decisions = [await it.limiter.admit(subject(), 0, 0) for _ in range(1000)]

        assert loop.time() - before < HANGS_S
        assert all(d.is_open and d.admitted for d in decisions)
        server.thaw()


async def test_everyone_who_waits_is_answered_by_the_deadline(start_redis: StartRedis) -> None:
    """Also those who do not fit into the batch that hangs; a hanging batch is one failure."""
    server = start_redis()
    async with running(server.url, deadline_s=DEADLINE_S, timeout_s=5) as it:
        await it.limiter.admit(subject(), 0, 0)
        server.freeze()
        loop = asyncio.get_running_loop()
        before = loop.time()

        decisions = await asyncio.gather(*(it.limiter.admit(subject(), 0, 0) for _ in range(1000)))

        assert loop.time() - before < HANGS_S
        assert {d.is_open for d in decisions} == {True}
        assert it.limiter.admitted_open == 1000
        assert not it.breaker.is_open
        server.thaw()


async def test_a_flush_of_all_data_is_no_outage(start_redis: StartRedis) -> None:
    """Limits start again, nobody is admitted open, and nothing is held for good."""
    server = start_redis()
    async with running(server.url) as it:
        async with traffic(it) as seen:
            run(server, "FLUSHALL")
            assert await seen.decided_again()
        await it.drain()

        assert (seen.opened, it.limiter.admitted_open, it.limiter.broken) == (0, 0, 0)
        look = Look(server.url)
        assert (look.month()[1], look.open_reservations()) == (0, 0)
        look.redis.close()


async def test_settlings_after_a_flush_count_once(redis_url: str, look: Look) -> None:
    """Their reservations are lost; what they used is owed, and holds nothing below zero."""
    async with running(redis_url) as it:
        decisions = [await it.limiter.admit(subject(), 10, 0) for _ in range(10)]
        look.redis.flushall()
        for decision in decisions:
            it.limiter.settle(decision.reservation, 3)
        await it.drain()

        assert look.month() == (30, 0)
        assert (it.limiter.admitted_open, it.limiter.broken) == (0, 0)


async def test_what_was_counted_is_raised_before_anything_is_decided(
    redis_url: str, look: Look
) -> None:
    """Data lost, or older: the very next decision, and the very next settling, know the month."""
    month = f"{datetime.now(UTC):%Y-%m}"
    asked = subject(ceiling=100)
    async with running(redis_url) as it:
        open_one, first = [await it.limiter.admit(asked, 20, 0) for _ in range(2)]
        it.limiter.settle(first.reservation, 60)
        await it.drain()

        look.redis.flushall()
        denied = await it.limiter.admit(asked, 41, 0)
        look.redis.hset(keys.month_tokens(ORG), month, 7)
        it.limiter.settle(open_one.reservation, 30)
        await it.drain()

        assert (denied.level, denied.tokens_used) == ("tokens", 60)
        assert look.month() == (90, 0)
        assert (it.limiter.admitted_open, it.limiter.broken) == (0, 0)


async def test_a_restart_forgets_no_limit(start_redis: StartRedis) -> None:
    """The window and the month are those of before, and the scripts are there again."""
    server = start_redis()
    asked = subject(rpm=(3, None, None))
    async with running(server.url) as it:
        for _ in range(3):
            it.limiter.settle((await it.limiter.admit(asked, 10, 0)).reservation, 4)
        await it.drain()
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await it.pool.disconnect()

        decision = await it.limiter.admit(asked, 0, 0)

        assert (decision.level, decision.agent_used, decision.tokens_used) == ("agent", 3, 12)
        assert it.limiter.broken == 0


async def test_a_broken_script_is_no_outage(redis_url: str) -> None:
    """It is counted apart and asked again each time: the breaker does not hide it."""
    broken = msgspec.structs.replace(subject(), limit_args=("many", -1, -1, -1))
    async with running(redis_url) as it:
        times = FAILURES_TO_OPEN + 3
        decisions = [await it.limiter.admit(broken, 0, 0) for _ in range(times)]

        assert {d.is_open for d in decisions} == {True}
        assert (it.limiter.broken, it.limiter.admitted_open) == (times, times)
        assert not it.breaker.is_open
        assert not (await it.limiter.admit(subject(), 0, 0)).is_open

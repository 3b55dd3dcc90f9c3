"""A gateway under attack, while one well-behaved agent goes on asking, and what both see of it."""

import asyncio
import math
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gateway_stack import Stack, Tenant
from traffic import Traffic, traffic
from waiting import comes_true

IS_LONG = os.environ.get("ATTACKS") == "long"
"""Long enough for figures; otherwise just long enough to see that nothing breaks."""
SECONDS = 10.0 if IS_LONG else 0.7
QUIET = 300 if IS_LONG else 20
IDLE_CONNECTIONS = 10_000 if IS_LONG else 2000
ATTACKERS = 20
ADDED = 64_000_000
"""The most memory that an attack may add, in bytes."""
LEFT_OPEN = 24
"""Descriptors that may stay open a little longer: connections that are kept for later."""
WAITS_S = 15


@dataclass
class Siege:
    """What the attackers were answered: how often which status, 0 where there was no answer."""

    statuses: Counter[int] = field(default_factory=Counter)


def resident(pid: int, name: str = "VmRSS") -> int:
    """A figure of a process's memory, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith(name))
    return int(line.split()[1]) * 1024


def forget_peak(pid: int) -> None:
    """Let `VmHWM` begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def p99_ms(seconds: Sequence[float]) -> float:
    """The time within which 99 of 100 were answered."""
    return sorted(seconds)[math.ceil(len(seconds) * 0.99) - 1] * 1000


@asynccontextmanager
async def besieged(
    stack: Stack, tenant: Tenant, tell: Callable[[str], None], name: str
) -> AsyncIterator[Siege]:
    """In the block: an attack. The agent beside it is served, and afterwards all is as before."""
    pid, siege = stack.gateway.pid, Siege()
    open_before = descriptors(pid)
    async with traffic(stack, tenant.agent, clients=1) as seen:
        await seen.until(lambda answer: answer.status == 200, WAITS_S, count=QUIET)
        quiet, before = list(seen.answers), resident(pid)
        forget_peak(pid)
        yield siege
        added = resident(pid, "VmHWM") - before
    served_all(seen)
    during = [answer.seconds for answer in seen.answers[len(quiet) :]]
    assert during, "nobody was served during the attack"
    tell(
        f"{name}: {sum(siege.statuses.values())} requests {dict(siege.statuses)}; agent's p99 "
        f"{p99_ms([answer.seconds for answer in quiet]):.1f} ms, during the attack "
        f"{p99_ms(during):.1f} ms ({len(during)} calls); memory added {added / 1e6:.1f} MB"
    )
    assert added < ADDED
    assert await comes_true(lambda: descriptors(pid) <= open_before + LEFT_OPEN, WAITS_S)


def served_all(seen: Traffic) -> None:
    """Nobody failed, and nobody was admitted open."""
    assert seen.failures == []
    assert {(answer.status, answer.is_open) for answer in seen.answers} == {(200, False)}


async def flood(stack: Stack, siege: Siege, data: Callable[[], bytes]) -> None:
    """Send requests at full speed, each on a connection of its own, from many clients at once."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SECONDS

    async def attacker() -> None:
        while loop.time() < end:
            siege.statuses[await status_of(stack.gateway.port, data())] += 1

    await asyncio.gather(*(attacker() for _ in range(ATTACKERS)))


async def status_of(port: int, data: bytes) -> int:
    """What one request is answered, 0 where the connection ends without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        with suppress(ConnectionError):
            async with asyncio.timeout(WAITS_S):
                return int((await reader.readline() or b"- 0").split()[1])
        return 0
    finally:
        writer.transport.abort()

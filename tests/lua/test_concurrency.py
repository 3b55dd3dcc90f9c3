"""Several gateways at once on one server: exactly as many pass as the limit says."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest
from running import Look
from script_calls import Ask, Scripts

PROCESSES = 4
REQUESTS = 500
PASS = 100
NEEDED = 10
ADMIT_MANY = Path(__file__).with_name("admit_many.py")


async def start(url: str, limits: tuple[int, int, int, int]) -> Process:
    """One gateway's limiter, ready to go."""
    arguments = (url, REQUESTS // PROCESSES, NEEDED, *limits)
    process = await asyncio.create_subprocess_exec(
        sys.executable, ADMIT_MANY, *map(str, arguments), stdin=PIPE, stdout=PIPE
    )
    assert await answer(process) == b"ready\n"
    return process


async def answer(process: Process) -> bytes:
    """Its next line."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return await process.stdout.readline()


def go_on(processes: list[Process]) -> None:
    """All at once."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")


@pytest.mark.parametrize(
    "limits",
    [
        (PASS, -1, -1, -1),
        (1000, PASS, -1, -1),
        (-1, 1000, PASS, -1),
        (-1, -1, -1, PASS * NEEDED),
        (PASS, PASS, PASS, PASS * NEEDED),
    ],
    ids=["agent", "org", "global", "tokens", "all"],
)
async def test_exactly_the_limit_passes_from_several_processes(
    redis_url: str, look: Look, limits: tuple[int, int, int, int]
) -> None:
    """500 at once from 4 processes on 100, whichever level is the tight one: 100 at every level.

    Their tokens are held to the last one, and after the settling none is held and all are used.
    """
    processes = await asyncio.gather(*(start(redis_url, limits) for _ in range(PROCESSES)))
    go_on(processes)
    counts = [json.loads(await answer(process)) for process in processes]

    assert sum(count["admitted"] for count in counts) == PASS
    assert [(count["open"], count["broken"]) for count in counts] == [(0, 0)] * PROCESSES
    denied = Scripts(look.redis)
    denied.now_ms = int(look.redis.time()[0]) * 1000
    assert denied.requests_used(Ask()) == (PASS, PASS, PASS)
    assert look.month() == (0, PASS * NEEDED)
    assert look.open_reservations() == PASS

    go_on(processes)
    assert [await process.wait() for process in processes] == [0] * PROCESSES

    assert look.month() == (PASS * (NEEDED - 1), 0)
    assert look.open_reservations() == 0

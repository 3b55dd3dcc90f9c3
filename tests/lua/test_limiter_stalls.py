"""The limiter in a process that is itself too busy: told apart from a Redis that is away."""

import asyncio
import time

from running import running, subject
from servers import StartRedis

from gateway.breaker import FAILURES_TO_OPEN

DEADLINE_S = 0.1
HANGS_S = 10 * DEADLINE_S


async def test_a_busy_process_still_answers_in_an_outage(start_redis: StartRedis) -> None:
    """Every turn of the loop takes long, and Redis hangs: the deadline holds all the same."""
    server = start_redis()
    async with running(server.url, deadline_s=DEADLINE_S, timeout_s=5) as it:
        await it.limiter.admit(subject(), 0, 0)
        server.freeze()
        busy = asyncio.create_task(slow_turns())
        loop = asyncio.get_running_loop()
        before = loop.time()

        decision = await it.limiter.admit(subject(), 0, 0)

        assert (decision.is_open, loop.time() - before < HANGS_S) == (True, True)
        busy.cancel()
        server.thaw()


async def slow_turns() -> None:
    """Keep the loop busy until cancelled."""
    while True:
        time.sleep(0.03)  # noqa: ASYNC251 - a busy process is what this is about
        await asyncio.sleep(0)


async def test_a_stall_of_our_own_is_no_outage(redis_url: str) -> None:
    """The answer was here in time, only we were not: it is read, and nothing opens."""
    async with running(redis_url, deadline_s=DEADLINE_S) as it:
        await it.limiter.load()
        for _ in range(FAILURES_TO_OPEN + 1):
            asked = asyncio.create_task(it.limiter.admit(subject(), 0, 0))
            for _ in range(6):  # turns of the loop, until it is sent
                await asyncio.sleep(0)
            time.sleep(2 * DEADLINE_S)  # noqa: ASYNC251 - the stall
            assert not (await asked).is_open

        assert (it.limiter.admitted_open, it.breaker.is_open) == (0, False)

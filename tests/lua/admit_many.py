"""A gateway's limiter in a process of its own: waits for a line, admits many, says how many.

Arguments: URL, count, needed, then agent, organization, platform and ceiling, -1 = none.
Prints `ready`, and after the line a JSON object `{"admitted", "open", "broken"}`. After a second
line it settles what it admitted, with one token fewer than held.
"""

import asyncio
import json
import sys

from running import Running, running, subject

from lua.decision import Decision, Subject


def limit(text: str) -> int | None:
    """-1 = none."""
    return None if text == "-1" else int(text)


def say(text: str) -> None:
    """A line to whoever started us."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def line() -> None:
    """Wait for one from whoever started us."""
    await asyncio.to_thread(sys.stdin.readline)


async def admit(it: Running, asked: Subject, needed: int, place: int) -> Decision:
    """Not all in one batch: the processes' script calls shall mix."""
    await asyncio.sleep(place % 25 / 1000)
    return await it.limiter.admit(asked, needed, 0)


async def main(url: str, count: str, needed: str, *limits: str) -> None:
    """See the module."""
    agent, org, platform, ceiling = map(limit, limits)
    asked = subject(rpm=(agent, org, platform), ceiling=ceiling)
    async with running(url, deadline_s=30, timeout_s=30) as it:
        await it.limiter.load()
        say("ready")
        await line()
        decisions = await asyncio.gather(
            *(admit(it, asked, int(needed), place) for place in range(int(count)))
        )
        admitted = [decision for decision in decisions if decision.admitted]
        counts = {
            "admitted": len(admitted),
            "open": it.limiter.admitted_open,
            "broken": it.limiter.broken,
        }
        say(json.dumps(counts))
        await line()
        for decision in admitted:
            it.limiter.settle(decision.reservation, int(needed) - 1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

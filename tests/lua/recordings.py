"""What a recorder is told, and what charts show of it."""

from collections import Counter

from charted import RINGS
from redis.asyncio import Redis
from running import subject
from script_calls import AGENT, ORG

from lua.decision import Decision, Level, Reservation
from lua.history import last_hour

MINUTE_MS = 60_000


class Gate:
    """Whether Redis is asked, as the test says."""

    is_open = False

    def succeeded(self) -> None:
        """Nothing to do."""

    def failed(self, reason: str) -> None:
        raise AssertionError(reason)


def denial(now_ms: int, level: Level = "agent", agent: str = AGENT, org: str = ORG) -> Decision:
    """What the limiter says to a request that it denies."""
    who = subject(org, agent)
    return Decision(who, Reservation(who, "r"), admitted=False, now_ms=now_ms, level=level)


def forwarded(agent: str = AGENT) -> Decision:
    """What the limiter says when Redis says nothing."""
    who = subject(ORG, agent)
    return Decision(who, Reservation(who, "r"), admitted=True, is_open=True)


async def now_ms(client: Redis) -> int:
    seconds, _ = await client.time()
    return int(seconds) * 1000


async def denied(client: Redis, ring: str = RINGS[0]) -> Counter[str]:
    """All denials in a ring's last hour, by level."""
    total: Counter[str] = Counter()
    for minute in await last_hour(client, ring):
        total.update(minute.denied)
    return total

"""The live numbers, read from the keys that the limiter decides by."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from redis.asyncio import Redis

from lua import keys
from lua.errors import limiter_errors
from lua.fields import milliseconds, whole
from lua.history import Minute, last_hours
from lua.uses import Target, Use, uses
from lua.window import EMPTY, Window, window


class Live(msgspec.Struct, frozen=True):
    """What is used now, as of `now_ms` (Unix ms), by an agent (nothing, where none was asked for),
    its organization and the platform. Tokens are the organization's of this UTC month; `in_flight`
    are its requests that are admitted, not settled, and within their lease.
    """

    now_ms: int
    agent: Window
    org: Window
    platform: Window
    tokens_used: int
    tokens_held: int
    in_flight: int


class LiveNumbers:
    """What operators are shown, read from one server. Raises LimiterUnavailableError or
    LimiterBrokenError: without Redis nothing is known.
    """

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def of(self, targets: Sequence[Target]) -> list[Live]:
        """What is used now by each (organization, agent or None), in their order; see `live`."""
        return await live(self._client, targets)

    async def platform(self) -> Window:
        """The requests of everybody in the trailing 60 s."""
        with limiter_errors(may_have_run=False):
            async with self._client.pipeline(transaction=True) as pipeline:
                pipeline.time()
                pipeline.hget(keys.GLOBAL_RING, "seconds")
                time, packed = await pipeline.execute()
        return window(packed, milliseconds(time))

    async def uses(self, targets: Sequence[Target]) -> list[Use]:
        """What is used now by each, in their order, to put many of them in another; see `uses`."""
        return await uses(self._client, targets)

    async def last_hour(self, ring: str) -> tuple[Minute, ...]:
        """The 60 minutes of a ring, by its key (see keys.py), the oldest first."""
        (minutes,) = await self.last_hours([ring])
        return minutes

    async def last_hours(self, rings: Sequence[str]) -> list[tuple[Minute, ...]]:
        """The 60 minutes of each ring, in their order; all end with the same minute."""
        return await last_hours(self._client, rings)


async def live(client: Redis, targets: Sequence[Target]) -> list[Live]:
    """Read the numbers of each (organization, agent or None), all of one moment.

    Two round trips, however many: the second asks whose lease has not ended by the time that the
    first brought. Raises LimiterUnavailableError or LimiterBrokenError.
    """
    orgs = list(dict.fromkeys(org_id for org_id, _ in targets))
    agents = [keys.agent_ring(org_id, agent_id) for org_id, agent_id in targets if agent_id]
    with limiter_errors(may_have_run=False):
        leased = f"({milliseconds(await client.time())}"
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.time()
            for ring in (keys.GLOBAL_RING, *agents, *map(keys.org_ring, orgs)):
                pipeline.hget(ring, "seconds")
            for org_id in orgs:
                pipeline.hgetall(keys.month_tokens(org_id))
            for org_id in orgs:
                pipeline.zcount(keys.inflight(org_id), leased, "+inf")
            time, *replies = await pipeline.execute()
    now_ms = milliseconds(time)
    rest = iter(replies)
    platform = window(next(rest), now_ms)
    agent_windows = [window(next(rest), now_ms) for _ in agents]
    org_windows = {org_id: window(next(rest), now_ms) for org_id in orgs}
    tokens = {org_id: _tokens(next(rest), now_ms) for org_id in orgs}
    in_flight = dict(zip(orgs, rest, strict=True))
    of_agents = iter(agent_windows)
    return [
        Live(
            now_ms,
            next(of_agents) if agent_id else EMPTY,
            org_windows[org_id],
            platform,
            *tokens[org_id],
            in_flight[org_id],
        )
        for org_id, agent_id in targets
    ]


def _tokens(months: dict[bytes, bytes], now_ms: int) -> tuple[int, int]:
    """Used and held in the month of `now_ms`."""
    month = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m").encode()
    return whole(months.get(month)), whole(months.get(month + b":held"))

"""What the durable ledger copies from the limiter's counters, and raises in them."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from redis.asyncio import Redis

from lua import keys
from lua.decision import Subject
from lua.errors import limiter_errors
from lua.fields import whole
from lua.history import Minute, last_minutes
from lua.scripts import RAISE, Argument
from lua.spool import report_raised

AT_ONCE = 250
"""Keys of one call: Redis is everybody's, and held for about 1 ms."""


class Counters:
    """The limiter's counters. Raises LimiterUnavailableError or LimiterBrokenError."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def minutes(
        self, subjects: Sequence[Subject], count: int
    ) -> dict[tuple[str, str | None], list[Minute]]:
        """The last `count` minutes of each agent, and of their organizations (None), that hold
        anything.
        """
        targets: dict[tuple[str, str | None], str] = {}
        for subject in subjects:
            targets[subject.org_id, subject.agent_id] = keys.agent_ring(
                subject.org_id, subject.agent_id
            )
            targets[subject.org_id, None] = keys.org_ring(subject.org_id)
        named = list(targets.items())
        found: dict[tuple[str, str | None], list[Minute]] = {}
        for at in range(0, len(named), AT_ONCE):
            part = named[at : at + AT_ONCE]
            read = await last_minutes(self._client, [ring for _, ring in part], count)
            for (target, _), hour in zip(part, read, strict=True):
                if counted := [minute for minute in hour if _holds_anything(minute)]:
                    found[target] = counted
        return found

    async def months(
        self, org_ids: Collection[str], names: Sequence[str]
    ) -> dict[tuple[str, str], int]:
        """Tokens used by each organization in these months (`2026-11`), where there are any."""
        found: dict[tuple[str, str], int] = {}
        orgs = list(org_ids)
        for at in range(0, len(orgs), AT_ONCE):
            part = orgs[at : at + AT_ONCE]
            with limiter_errors(may_have_run=False):
                async with self._client.pipeline(transaction=False) as pipeline:
                    for org_id in part:
                        pipeline.hmget(keys.month_tokens(org_id), list(names))
                    replies = await pipeline.execute()
            for org_id, values in zip(part, replies, strict=True):
                for name, value in zip(names, values, strict=True):
                    if tokens := whole(value):
                        found[org_id, name] = tokens
        return found

    async def raise_months(self, month: str, tokens: Mapping[str, int]) -> None:
        """Raise counters to these tokens, by organization, if that month is the running one."""
        named = list(tokens.items())
        for at in range(0, len(named), AT_ONCE):
            part = named[at : at + AT_ONCE]
            hashes: list[Argument] = [keys.month_tokens(org_id) for org_id, _ in part]
            args: list[Argument] = [-1, month, *(used for _, used in part)]
            report_raised(await RAISE.run(self._client, hashes, args))
            await asyncio.sleep(0)


def _holds_anything(minute: Minute) -> bool:
    return bool(minute.requests or minute.tokens or minute.denied or minute.open)

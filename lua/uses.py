"""What many organizations and agents use now: just enough to put them in order, and quick."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from redis.asyncio import Redis

from lua import keys
from lua.scripts import USES, Argument
from lua.window import WIDTH, window

AT_ONCE = 250
"""Targets of one script call: Redis and the event loop are everybody's, and held for about 1 ms."""

Target = tuple[str, str | None]
"""An organization, and one of its agents or None."""


class Use(msgspec.Struct, frozen=True, gc=False):
    """Requests in the trailing 60 s. `tokens`: an organization's of this UTC month, used and held
    together; 0 for an agent, which has none of its own.

    There may be thousands, which hold nothing: the garbage collector need not look at them.
    """

    requests: int
    tokens: int


async def uses(client: Redis, targets: Sequence[Target]) -> list[Use]:
    """Read the use of each (organization, agent or None), in their order.

    A round trip for each 250, so that this is not all of one moment. A key that is not the
    limiter's own counts as empty. Raises LimiterUnavailableError or LimiterBrokenError.
    """
    found: list[Use] = []
    for start in range(0, len(targets), AT_ONCE):
        found += await _uses(client, targets[start : start + AT_ONCE])
        await asyncio.sleep(0)
    return found


async def _uses(client: Redis, targets: Sequence[Target]) -> list[Use]:
    orgs = list(dict.fromkeys(org_id for org_id, agent_id in targets if agent_id is None))
    rings: list[Argument] = [keys.ring(*target) for target in targets]
    reply: list[Any] = await USES.run(
        client, [*rings, *map(keys.month_tokens, orgs)], [-1, len(rings)]
    )
    now_ms, windows, *tokens = reply
    of_org = dict(zip(orgs, tokens, strict=True))
    return [
        Use(
            window(windows[place * WIDTH : (place + 1) * WIDTH], now_ms).used,
            0 if agent_id else of_org[org_id],
        )
        for place, (org_id, agent_id) in enumerate(targets)
    ]

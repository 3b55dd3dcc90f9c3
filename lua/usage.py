"""The live numbers, read from the keys that the limiter decides by."""

import re
import struct
from datetime import UTC, datetime
from typing import Any

import msgspec
from redis.asyncio import Redis

from lua.decision import Subject
from lua.errors import limiter_errors

_SECONDS = 61
_SECONDS_FORMAT = f">4I{_SECONDS}I"
_STEP_BACK_S = 60
_INTEGER = re.compile(rb"-?[0-9]+")
_LONGEST = 18


class Window(msgspec.Struct, frozen=True):
    """Requests in the trailing 60 s. `reset_ms` is when all have left it (0: none is in it)."""

    used: int
    reset_ms: int


class Live(msgspec.Struct, frozen=True):
    """What is used now, as of `now_ms` (Unix ms). Tokens are this UTC month's."""

    now_ms: int
    agent: Window
    org: Window
    tokens_used: int
    tokens_held: int


async def live(client: Redis, subject: Subject) -> Live:
    """Read an agent's and its organization's numbers in one round trip.

    Raises LimiterUnavailableError or LimiterBrokenError.
    """
    org_ring, month_tokens, _ = subject.org_keys
    with limiter_errors(may_have_run=False):
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.time()
            pipeline.hget(subject.agent_key, "seconds")
            pipeline.hget(org_ring, "seconds")
            pipeline.hgetall(month_tokens)
            (second, microsecond), agent, org, months = await pipeline.execute()
    now_ms = second * 1000 + microsecond // 1000
    month = datetime.fromtimestamp(second, UTC).strftime("%Y-%m").encode()
    return Live(
        now_ms=now_ms,
        agent=_window(agent, now_ms),
        org=_window(org, now_ms),
        tokens_used=_integer(months.get(month)),
        tokens_held=_integer(months.get(month + b":held")),
    )


def _integer(text: bytes | None) -> int:
    """As series.lua reads a field: what is no integer counts as nothing."""
    return int(text) if text and len(text) <= _LONGEST and _INTEGER.fullmatch(text) else 0


def _window(packed: Any, now_ms: int) -> Window:
    """What series.lua packs: base second, three more figures, 61 counts, oldest first."""
    if not packed or len(packed) != struct.calcsize(_SECONDS_FORMAT):
        return Window(0, 0)
    base, _, _, _, *counts = struct.unpack(_SECONDS_FORMAT, packed)
    now_s = now_ms // 1000
    if base - now_s > _STEP_BACK_S:
        return Window(0, 0)
    second = max(base, now_s)
    inside = counts[second - base :]
    if not any(inside):
        return Window(0, 0)
    newest = base - next(age for age, count in enumerate(reversed(counts)) if count)
    return Window(sum(inside), (newest + _SECONDS) * 1000 - now_ms)

"""The last 60 minutes of a ring, from the series that the scripts keep in it (see series.lua)."""

import asyncio
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from redis.asyncio import Redis

from lua.decision import LEVELS
from lua.errors import limiter_errors
from lua.fields import STEP_BACK_S, milliseconds, whole

MINUTES = 60
_RUNNING_TOKENS = re.compile(rb"tokens:([0-9]{1,12})")
_HEAD = struct.Struct(">4I")
_UNSIGNED = {4: "I", 8: "Q"}


class Minute(msgspec.Struct, frozen=True):
    """One minute of a ring, `minute` counted from the Unix epoch.

    `tokens` count in the minute in which they were settled. `estimated` are those of them that come
    from requests whose usage was not reported, or not wholly. `denied` has a count for each level
    that denied in that minute. `open` counts what a gateway forwarded without waiting for a
    decision any longer, or without asking for one. It is not among `requests`, unless the decision
    came late.
    """

    minute: int
    requests: int
    tokens: int
    denied: Mapping[str, int]
    open: int = 0
    estimated: int = 0


async def last_hour(client: Redis, ring: str) -> tuple[Minute, ...]:
    """The 60 minutes that end with the running one, the oldest first; see `last_hours`."""
    (minutes,) = await last_hours(client, [ring])
    return minutes


async def last_hours(client: Redis, rings: Sequence[str]) -> list[tuple[Minute, ...]]:
    """Those of each ring, in their order, in one round trip.

    A minute in which nothing happened is zero. Denials and open requests come a few seconds late,
    because gateways gather them; those of an outage come when it is over. Raises
    LimiterUnavailableError or LimiterBrokenError.
    """
    now_s, found = await _read(client, rings)
    hours = []
    for fields in found:
        hours.append(_minutes(fields, now_s))
        await asyncio.sleep(0)  # each takes a fraction of a millisecond; traffic goes on between
    return hours


async def last_minutes(client: Redis, rings: Sequence[str], count: int) -> list[tuple[Minute, ...]]:
    """Only the last `count` minutes (1 to 60) of each, and none of a ring that is not there."""
    now_s, found = await _read(client, rings)
    hours: list[tuple[Minute, ...]] = []
    for fields in found:
        hours.append(_minutes(fields, now_s, count) if fields else ())
        await asyncio.sleep(0)
    return hours


async def _read(client: Redis, rings: Sequence[str]) -> tuple[int, list[Mapping[bytes, bytes]]]:
    with limiter_errors(may_have_run=False):
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.time()
            for ring in rings:
                pipeline.hgetall(ring)
            time, *found = await pipeline.execute()
    return milliseconds(time) // 1000, found


def _minutes(fields: Mapping[bytes, bytes], now_s: int, count: int = MINUTES) -> tuple[Minute, ...]:
    base_s, in_running = _running(fields.get(b"seconds"))
    last = max(now_s, base_s if base_s - now_s <= STEP_BACK_S else 0) // 60
    first = last - count + 1
    requests = _series(fields.get(b"minutes"), 4, first)
    requests[base_s // 60] += in_running
    tokens = _series(fields.get(b"tokens"), 8, first)
    for name, added in fields.items():
        if running := _RUNNING_TOKENS.fullmatch(name):
            tokens[int(running[1])] += whole(added)
    estimated = _series(fields.get(b"estimated"), 8, first)
    denied = {
        level: _series(fields.get(b"denied:" + level.encode()), 4, first)
        for level in LEVELS
        if level
    }
    opened = _series(fields.get(b"open"), 4, first)
    return tuple(
        Minute(
            minute,
            requests[minute],
            tokens[minute],
            {level: series[minute] for level, series in denied.items() if series[minute]},
            opened[minute],
            min(estimated[minute], tokens[minute]),  # a damaged series harms no other
        )
        for minute in range(first, last + 1)
    )


def _running(packed: bytes | None) -> tuple[int, int]:
    """The newest second of the ring, and the requests in its minute, which no series has yet."""
    if not packed or len(packed) < _HEAD.size:
        return 0, 0
    base_s, _, _, in_minute = _HEAD.unpack_from(packed)
    return base_s, in_minute


def _series(packed: bytes | None, size: int, first: int) -> Counter[int]:
    """A packed series of `size` bytes per minute, by minute, from `first` on. One of another length
    has none.
    """
    if not packed or len(packed) != 4 + MINUTES * size:
        return Counter()
    base = int.from_bytes(packed[:4], "big")
    wanted = min(MINUTES, base - first + 1)
    if wanted <= 0:
        return Counter()
    counts = struct.unpack_from(f">{wanted}{_UNSIGNED[size]}", packed, len(packed) - wanted * size)
    return Counter({base - wanted + 1 + place: count for place, count in enumerate(counts)})

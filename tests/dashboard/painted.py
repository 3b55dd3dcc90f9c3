"""Hours of traffic in the keys that the limiter keeps, without sending it."""

import struct
import time
from collections.abc import Callable
from typing import Any

MINUTES, SECONDS = 60, 61


async def paint(
    redis: Any,
    ring: str,
    *,
    requests: Callable[[int], int] = lambda _: 0,
    tokens: Callable[[int], int] = lambda _: 0,
    denied: dict[str, Callable[[int], int]] | None = None,
    opened: Callable[[int], int] | None = None,
    estimated: Callable[[int], int] | None = None,
    now: int = 0,
) -> None:
    """Fill a ring. Each function says the count of the minute of that age, 1 to 59; `now` are the
    requests in the trailing 60 s, all of which were admitted just now.
    """
    at_s = int(time.time())
    fields: dict[str, bytes] = {
        "minutes": _series(at_s, requests, "I"),
        "tokens": _series(at_s, tokens, "Q"),
        "seconds": struct.pack(f">4I{SECONDS}I", at_s, now, at_s, now, *[0] * 60, now),
    }
    for level, counts in (denied or {}).items():
        fields[f"denied:{level}"] = _series(at_s, counts, "I")
    if opened:
        fields["open"] = _series(at_s, opened, "I")
    if estimated:
        fields["estimated"] = _series(at_s, estimated, "Q")
    await redis.hset(ring, mapping=fields)


def _series(at_s: int, counts: Callable[[int], int], kind: str) -> bytes:
    ages = range(MINUTES - 1, 0, -1)
    return struct.pack(f">I{MINUTES}{kind}", at_s // 60, *map(counts, ages), 0)

"""What stands in Redis, unpacked and compared with the oracle's log."""

import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any

from oracle import Oracle, Ring, month_of

from lua import keys

HOUR_MINUTES = 60


def assert_every_key_expires(client: Any) -> None:
    """No key without a TTL."""
    for key in client.scan_iter("*"):
        assert client.pttl(key) > 0, key


def assert_months(client: Any, oracle: Oracle, org: str) -> None:
    """Month by month: held equals the open reservations in the keys; used is the oracle's."""
    open_held: Counter[str] = Counter()
    unheld = {held.member for held in oracle.held if held.unheld}
    for member, score in client.zscan_iter(keys.inflight(org)):
        if score > 0 and member.decode() not in unheld:
            _, admitted_ms, held = member.decode().split(":")
            open_held[month_of(int(admitted_ms))] += int(held)
    fields = {name.decode(): int(n) for name, n in client.hgetall(keys.month_tokens(org)).items()}
    fields.pop("since", None)
    for name, value in fields.items():
        month, _, kind = name.partition(":")
        assert value == (open_held[month] if kind else oracle.used.get((org, month), 0)), name
    assert all(f"{month}:held" in fields for month, held in open_held.items() if held)


def assert_history(client: Any, oracle: Oracle, key: str, name: str) -> None:
    """The minutes of one ring: those that ended, and the running one."""
    ring = oracle.ring(name)
    seconds, minutes, running, tokens = client.hmget(key, "seconds", "minutes", "running", "tokens")
    if seconds:
        second, _, _, in_minute = struct.unpack(">4I", seconds[:16])
        assert series(">61I", minutes, second // 60, in_minute) == last_hour(ring.minutes)
    if running:
        in_minute = int(client.hget(key, f"tokens:{int(running)}"))
        assert series(">I60Q", tokens, int(running), in_minute) == last_hour(ring.tokens)
    assert bool(seconds) == bool(ring.minutes)
    assert bool(running) == bool(ring.tokens)


def series(form: str, packed: bytes | None, running: int, count: int) -> dict[int, int]:
    """A packed series and the running minute, as what is not empty in the hour of the newest."""
    found = Counter({running: count})
    if packed:
        base, *entries = struct.unpack(form, packed)
        if base - running < HOUR_MINUTES:
            found.update({base - HOUR_MINUTES + 1 + i: n for i, n in enumerate(entries)})
    return last_hour(found)


def last_hour(counts: Mapping[int, int]) -> dict[int, int]:
    """What is not empty in the sixty minutes that end with the newest."""
    newest = max((minute for minute, count in counts.items() if count), default=0)
    return {m: n for m, n in counts.items() if n and newest - HOUR_MINUTES < m}


def assert_resets(ring: Ring, now_ms: int, frees_ms: int, empty_ms: int) -> None:
    """The window frees a request, and is empty, at those milliseconds and not one before."""
    used = ring.used(now_ms)
    assert (frees_ms == 0) == (empty_ms == 0) == (used == 0)
    if used:
        assert ring.used(now_ms + frees_ms) < used
        assert ring.used(now_ms + frees_ms - 1) == used
        assert ring.used(now_ms + empty_ms) == 0
        assert ring.used(now_ms + empty_ms - 1) > 0

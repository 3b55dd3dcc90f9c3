"""What stands in Redis, unpacked and compared with the oracle's log."""

import struct
from collections import Counter
from typing import Any

from oracle import Oracle, Ring, month_of

from lua import keys


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
    """The two minute series of one ring."""
    ring = oracle.ring(name)
    minutes, tokens = client.hmget(key, "minutes", "tokens")
    if minutes:
        base, *entries = struct.unpack(">61I", minutes)
        assert entries == [ring.minutes.get(base - 59 + i, 0) for i in range(60)]
    if tokens:
        base, *entries = struct.unpack(">I60Q", tokens)
        assert entries == [ring.tokens.get(base - 59 + i, 0) for i in range(60)]
    assert bool(minutes) == bool(ring.minutes)
    assert bool(tokens) == bool(ring.tokens)


def assert_resets(ring: Ring, now_ms: int, frees_ms: int, empty_ms: int) -> None:
    """The window frees a request, and is empty, at those milliseconds and not one before."""
    used = ring.used(now_ms)
    assert (frees_ms == 0) == (empty_ms == 0) == (used == 0)
    if used:
        assert ring.used(now_ms + frees_ms) < used
        assert ring.used(now_ms + frees_ms - 1) == used
        assert ring.used(now_ms + empty_ms) == 0
        assert ring.used(now_ms + empty_ms - 1) > 0

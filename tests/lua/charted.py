"""Rings as charts show them, and counts written at an injected time."""

from collections.abc import Mapping
from typing import Any

from script_calls import AGENT, ORG, Scripts

from lua import keys
from lua.history import Minute, _minutes
from lua.scripts import RECORD

RINGS = (keys.agent_ring(ORG, AGENT), keys.org_ring(ORG), keys.GLOBAL_RING)


def shown(scripts: Scripts, ring: str) -> tuple[Minute, ...]:
    """The ring's last hour at the scripts' time."""
    fields: Any = scripts.client.hgetall(ring)
    return _minutes(fields, scripts.now_ms // 1000)


def record(scripts: Scripts, series: str, counts: Mapping[int, int], ring: str = RINGS[0]) -> int:
    """Add to a series of one ring by minute; returns how many keys had to be replaced."""
    args = [value for minute, count in counts.items() for value in (1, series, minute, count)]
    now_ms, healed = scripts.client.eval(RECORD.source, 1, ring, scripts.now_ms, *args)
    assert now_ms == scripts.now_ms
    return int(healed)

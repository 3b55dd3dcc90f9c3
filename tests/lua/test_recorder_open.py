"""What was forwarded without a decision is told by the charts: also an outage, once it is over."""

import asyncio
import time

import pytest
from charted import RINGS, record, shown
from recordings import MINUTE_MS, Gate, denial, denied, forwarded, now_ms
from script_calls import Scripts
from servers import StartRedis
from waiting import comes_true

from lua import recorder
from lua.connection import RedisAddress, connect
from lua.history import last_hour
from lua.recorder import Recorder


def test_a_minute_that_is_still_to_come_is_the_running_one(scripts: Scripts) -> None:
    """A gateway whose clock is ahead counts what it forwarded now, and harms no other minute."""
    now = scripts.now_ms // MINUTE_MS
    record(scripts, "open", {now - 3: 1, now: 2, now + 1: 4, now + 100_000: 8})

    assert {p.minute - now: p.open for p in shown(scripts, RINGS[0]) if p.open} == {-3: 1, 0: 14}


async def test_requests_of_an_outage_are_told_after_it(start_redis: StartRedis) -> None:
    """At each ring, in the minute in which they were forwarded, also where Redis lost its data."""
    server = start_redis()
    client = connect(RedisAddress(server.url), timeout_s=2)
    gate = Gate()
    one = Recorder(client, gate)
    one.denied(denial(await now_ms(client), "org"))
    await asyncio.to_thread(server.stop)
    gate.is_open = True
    before = int(time.time()) // 60
    for _ in range(3):
        one.opened(forwarded())
        await one.write()
    after = int(time.time()) // 60
    await asyncio.to_thread(server.start)
    gate.is_open = False
    await one.write()

    found = [await last_hour(client, ring) for ring in RINGS]

    assert [sum(point.open for point in points) for points in found] == [3, 3, 3]
    assert {point.minute for points in found for point in points if point.open} <= {before, after}
    assert {point.requests for points in found for point in points} == {0}
    assert (await denied(client), one.lost) == ({"org": 1}, 0)
    await client.aclose()


async def test_a_long_outage_makes_room_for_the_last_hour(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no chart would show any more is forgotten, before anything that is shown is lost."""
    monkeypatch.setattr(recorder, "WRITE_EVERY_S", 0.01)
    monkeypatch.setattr(recorder, "CAPACITY", 3)
    client = connect(RedisAddress(redis_url), timeout_s=2)
    gate = Gate()
    gate.is_open = True
    one = Recorder(client, gate)
    start = await now_ms(client)
    for age in (0, 59, 61):
        one.denied(denial(start - age * MINUTE_MS))
    one.start()
    assert await comes_true(lambda: len(one._counts) == 2)
    one.opened(forwarded())
    gate.is_open = False
    await one.close(5)

    shown_now = await last_hour(client, RINGS[0])
    assert (sum(p.open for p in shown_now), one.lost) == (1, 0)
    assert sum(p.denied.get("agent", 0) for p in shown_now) >= 1
    await client.aclose()

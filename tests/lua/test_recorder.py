"""Denials reach the charts exactly, in bulk, and never twice."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from charted import RINGS, record, shown
from recordings import MINUTE_MS, Gate, denial, denied, now_ms
from redis.asyncio import Redis
from running import through
from script_calls import ORG, Ask, Scripts
from servers import StartRedis
from tcp_proxy import TcpProxy
from waiting import comes_true

from lua import keys, recorder
from lua.connection import RedisAddress, connect
from lua.decision import Level
from lua.history import last_hour
from lua.recorder import Recorder

LEVELS: tuple[Level, ...] = ("agent", "org", "global", "tokens")
HOUR_S = 3600


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    """A client of an empty server."""
    client = connect(RedisAddress(redis_url), timeout_s=2)
    yield client
    await client.aclose()


async def test_every_denial_of_many_processes_is_counted_once_at_each_ring(client: Redis) -> None:
    """Recorders write in batches, at once: agents, organizations and platform all add up."""
    chance = random.Random(1)
    recorders = [Recorder(client, Gate()) for _ in range(3)]
    start = await now_ms(client)
    expected: dict[str, Counter[str]] = {}
    for _ in range(3000):
        org, agent, level = (
            f"o{chance.randint(0, 2)}",
            f"a{chance.randint(0, 20)}",
            chance.choice(LEVELS),
        )
        chance.choice(recorders).denied(
            denial(start - chance.randint(0, 50) * MINUTE_MS, level, agent, org)
        )
        for ring in (keys.agent_ring(org, agent), keys.org_ring(org), keys.GLOBAL_RING):
            expected.setdefault(ring, Counter())[level] += 1

    await asyncio.gather(*(each.write() for each in recorders))

    assert {ring: await denied(client, ring) for ring in expected} == expected
    assert [each.lost for each in recorders] == [0, 0, 0]


async def test_a_denial_counts_in_the_minute_of_its_decision(client: Redis) -> None:
    """However much later it is written."""
    decided = await now_ms(client) - 7 * MINUTE_MS
    one = Recorder(client, Gate())
    one.denied(denial(decided, "tokens"))
    await one.write()

    found = {point.minute: point.denied for point in await last_hour(client, RINGS[1])}

    assert {minute: count for minute, count in found.items() if count} == {
        decided // MINUTE_MS: {"tokens": 1}
    }


def test_a_minute_that_is_over_an_hour_old_is_left_out(scripts: Scripts) -> None:
    """It is shown no more, and must not push out the minutes that are."""
    now = scripts.now_ms // MINUTE_MS
    record(scripts, "denied:agent", {now: 3, now - 59: 1})
    record(scripts, "denied:agent", {now - 60: 9, now - 500: 9})

    assert {p.minute - now: p.denied for p in shown(scripts, RINGS[0]) if p.denied} == {
        -59: {"agent": 1},
        0: {"agent": 3},
    }


def test_a_ring_of_denials_alone_expires(scripts: Scripts) -> None:
    """Where nothing was ever admitted there is a chart all the same, for an hour."""
    record(scripts, "denied:agent", {scripts.now_ms // MINUTE_MS: 1})

    assert HOUR_S < scripts.client.ttl(RINGS[0]) <= HOUR_S + 120


def test_recording_changes_nothing_that_decides(scripts: Scripts) -> None:
    """The window is the same before and after, and so is the next decision."""
    assert scripts.admit_one(Ask(agent_rpm=2)).admitted
    before = scripts.client.hget(RINGS[0], "seconds")

    record(scripts, "denied:agent", {scripts.now_ms // MINUTE_MS: 50})

    assert scripts.client.hget(RINGS[0], "seconds") == before
    assert [scripts.admit_one(Ask(agent_rpm=2)).admitted for _ in range(2)] == [True, False]
    assert shown(scripts, RINGS[0])[-1].denied == {"agent": 50}


def test_a_key_that_is_no_ring_is_replaced_and_told(scripts: Scripts) -> None:
    """As the other scripts do with a key that is not theirs."""
    scripts.client.set(RINGS[0], "mine")

    healed = record(scripts, "denied:org", {scripts.now_ms // MINUTE_MS: 2})

    assert healed == 1
    assert shown(scripts, RINGS[0])[-1].denied == {"org": 2}


async def test_denials_of_an_outage_are_written_after_it(start_redis: StartRedis) -> None:
    """A server that could not be reached surely wrote nothing: the counts wait."""
    server = start_redis()
    server.stop()
    client = connect(RedisAddress(server.url), timeout_s=2)
    one = Recorder(client, Gate())
    for _ in range(2):
        one.denied(denial(int(time.time() * 1000)))
        await one.write()
    server.start()
    await one.write()

    try:
        assert (await denied(client), one.lost) == ({"agent": 2}, 0)
    finally:
        await client.aclose()


async def test_a_batch_whose_answer_got_lost_is_not_repeated(redis_url: str, client: Redis) -> None:
    """Nobody knows whether it was written: it counts once at most, and says that it may be lost."""
    async with TcpProxy(urlsplit(redis_url).port or 0) as proxy:
        far = connect(RedisAddress(through(redis_url, proxy.port)), timeout_s=2)
        one = Recorder(far, Gate())
        one.denied(denial(await now_ms(far)))
        await one.write()
        one.denied(denial(await now_ms(far)))
        proxy.cut_replies()
        await one.write()
        proxy.heal()
        await one.write()
        await far.aclose()

    assert (await denied(client), one.lost) == ({"agent": 2}, 1)


async def test_nothing_is_asked_of_redis_while_the_gate_is_open(client: Redis) -> None:
    """The counts wait until it closes."""
    gate = Gate()
    one = Recorder(client, gate)
    one.denied(denial(await now_ms(client)))
    gate.is_open = True
    await one.write()
    assert await denied(client) == {}

    gate.is_open = False
    await one.write()

    assert await denied(client) == {"agent": 1}


async def test_memory_is_bounded(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known goes on being counted; what would be new beyond the bound is lost, and told."""
    monkeypatch.setattr(recorder, "CAPACITY", 2)
    one = Recorder(client, Gate())
    start = await now_ms(client)
    for agent in ("a1", "a2", "a3", "a1"):
        one.denied(denial(start, agent=agent))
    await one.write()

    assert (await denied(client, keys.org_ring(ORG)), one.lost) == ({"agent": 3}, 1)


async def test_it_writes_by_itself_and_what_is_left_at_the_end(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every few seconds while it runs, and once more when it is closed."""
    monkeypatch.setattr(recorder, "WRITE_EVERY_S", 0.02)
    one = Recorder(client, Gate())
    one.start()
    one.denied(denial(await now_ms(client)))
    assert await comes_true(lambda: not one._counts)
    monkeypatch.setattr(recorder, "WRITE_EVERY_S", 60)
    await asyncio.sleep(0.05)
    one.denied(denial(await now_ms(client)))
    await one.close(5)

    assert (await denied(client), one.lost) == ({"agent": 2}, 0)


async def test_closing_waits_no_longer_than_it_may(start_redis: StartRedis) -> None:
    """A frozen server holds nobody up; what it may not have got counts as lost."""
    server = start_redis()
    client = connect(RedisAddress(server.url), timeout_s=30)
    one = Recorder(client, Gate())
    one.start()
    for number in range(200):
        one.denied(denial(await now_ms(client), agent=f"a{number}"))
    server.freeze()
    began = asyncio.get_running_loop().time()
    await one.close(0.2)

    assert asyncio.get_running_loop().time() - began < 1
    assert one.lost == 200
    server.thaw()
    await client.aclose()

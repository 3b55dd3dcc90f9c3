"""When Redis is asked and when not: a few failures in a row open, the prober alone closes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis
from servers import StartRedis
from structlog.testing import capture_logs
from waiting import comes_true

from gateway import breaker
from gateway.breaker import FAILURES_TO_OPEN, PROBE_EVERY_S, Breaker
from lua import keys
from lua.connection import RedisAddress, connect
from lua.scripts import answers_writes


class Probe:
    """Answers what it is told, and counts how often it was asked."""

    def __init__(self) -> None:
        self.is_answered = False
        self.asked = 0

    async def __call__(self) -> bool:
        self.asked += 1
        return self.is_answered


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    """Asked without delay."""
    monkeypatch.setattr(breaker, "PROBE_EVERY_S", 0.005)
    return Probe()


@pytest.fixture
async def gate(probe: Probe) -> AsyncIterator[Breaker]:
    """A closed breaker."""
    gate = Breaker(probe)
    yield gate
    await gate.close()


def fail(gate: Breaker, times: int) -> None:
    """That many failures in a row."""
    for _ in range(times):
        gate.failed("no answer")


async def until_closed(gate: Breaker) -> None:
    """Give the prober time."""
    assert await comes_true(lambda: not gate.is_open, 2)


async def test_a_few_failures_in_a_row_open_it(gate: Breaker, probe: Probe) -> None:
    """One fewer does not, and asks nobody."""
    fail(gate, FAILURES_TO_OPEN - 1)
    await asyncio.sleep(0.03)
    assert (gate.is_open, probe.asked) == (False, 0)

    fail(gate, 1)

    assert gate.is_open


async def test_an_answer_in_between_starts_the_row_again(gate: Breaker) -> None:
    """Failures scattered among answers never open it."""
    for _ in range(10):
        fail(gate, FAILURES_TO_OPEN - 1)
        gate.succeeded()

    assert not gate.is_open


async def test_traffic_does_not_close_it(gate: Breaker, probe: Probe) -> None:
    """A late answer of a call of before says nothing: only the prober's counts."""
    fail(gate, FAILURES_TO_OPEN)
    gate.succeeded()
    await asyncio.sleep(0.05)

    assert gate.is_open
    assert probe.asked > 1


async def test_the_prober_closes_it_and_the_row_starts_again(gate: Breaker, probe: Probe) -> None:
    """Then it stops asking, and as many failures as ever are needed to open it once more."""
    fail(gate, FAILURES_TO_OPEN + 3)
    probe.is_answered = True
    await until_closed(gate)
    asked = probe.asked
    await asyncio.sleep(0.03)
    assert probe.asked == asked

    fail(gate, FAILURES_TO_OPEN - 1)
    assert not gate.is_open
    fail(gate, 1)
    assert gate.is_open


async def test_each_change_of_state_is_one_log_line(gate: Breaker, probe: Probe) -> None:
    """However many requests fail meanwhile; the first line says why."""
    with capture_logs() as lines:
        fail(gate, 100)
        gate.open("and again")
        probe.is_answered = True
        await until_closed(gate)

    assert [line["log_level"] for line in lines] == ["error", "warning"]
    assert lines[0]["reason"] == "no answer"


async def test_closing_stops_the_prober(gate: Breaker, probe: Probe) -> None:
    """No task is left behind at the end, opened or not."""
    await gate.close()
    fail(gate, FAILURES_TO_OPEN)
    await asyncio.sleep(0.02)

    await gate.close()

    asked = probe.asked
    await asyncio.sleep(0.03)
    assert probe.asked == asked
    assert len(asyncio.all_tasks()) == 1


async def test_a_probe_by_a_write_notices_a_server_that_cannot_write(
    start_redis: StartRedis,
) -> None:
    """A frozen server and one without memory do not answer; a sound one closes it within 2 s."""
    server = start_redis()
    client = connect(RedisAddress(server.url), timeout_s=0.2)
    look = redis.Redis.from_url(server.url)
    gate = Breaker(lambda: answers_writes(client, keys.PROBE))
    try:
        look.config_set("maxmemory-policy", "noeviction")
        for breaks, mends in (
            (lambda: look.config_set("maxmemory", 1), lambda: look.config_set("maxmemory", 0)),
            (server.freeze, server.thaw),
        ):
            breaks()
            fail(gate, FAILURES_TO_OPEN)
            await asyncio.sleep(3 * PROBE_EVERY_S)
            assert gate.is_open
            mends()
            await until_closed(gate)
        assert 0 < await client.ttl(keys.PROBE) <= 60
    finally:
        await gate.close()
        await client.aclose()
        look.close()

"""The charts' 60 minutes are what the scripts counted, minute by minute."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from charted import RINGS, record, shown
from running import Look
from script_calls import ORG, START_MS, Ask, Scripts

from lua import keys
from lua.connection import RedisAddress, connect
from lua.errors import LimiterBrokenError, LimiterUnavailableError
from lua.history import MINUTES, last_hour, last_hours

MINUTE_MS = 60_000
LEVELS = ("agent", "org", "global", "tokens")
KINDS = ("requests", "used", "estimated", "open", *(f"denied:{level}" for level in LEVELS))


def active(scripts: Scripts, ring: str = RINGS[0]) -> dict[int, tuple[int, int, dict[str, int]]]:
    """The minutes that are not idle, counted back from the running one."""
    minutes = shown(scripts, ring)
    now = scripts.now_ms // MINUTE_MS
    assert [point.minute for point in minutes] == list(range(now - MINUTES + 1, now + 1))
    return {
        point.minute - now: (point.requests, point.tokens, dict(point.denied))
        for point in minutes
        if point.requests or point.tokens or point.denied or point.open or point.estimated
    }


class Traffic:
    """One agent's traffic, and a plain count of it by minute and kind."""

    def __init__(self, scripts: Scripts) -> None:
        self.counted: Counter[tuple[int, str]] = Counter()
        self._scripts = scripts

    def happens(self, kind: str, amount: int) -> None:
        minute = self._scripts.now_ms // MINUTE_MS
        if kind == "requests":
            self._scripts.admit(*[Ask()] * amount)
        elif kind in ("used", "estimated"):
            verdict = self._scripts.admit_one(Ask())
            self._scripts.settle((verdict, amount), is_estimate=kind == "estimated")
            self.counted[minute, "requests"] += 1
            self.counted[minute, "tokens"] += amount
        else:
            for ring in RINGS:
                record(self._scripts, kind, {minute: amount}, ring)
        self.counted[minute, kind] += amount

    def chart(self) -> list[tuple[int, int, dict[str, int], int, int]]:
        """What the last hour must show."""
        last = self._scripts.now_ms // MINUTE_MS
        return [
            (
                self.counted[minute, "requests"],
                self.counted[minute, "tokens"],
                {level: n for level in LEVELS if (n := self.counted[minute, f"denied:{level}"])},
                self.counted[minute, "open"],
                self.counted[minute, "estimated"],
            )
            for minute in range(last - MINUTES + 1, last + 1)
        ]


@pytest.mark.parametrize("seed", range(3))
def test_every_minute_is_what_was_counted_in_it(scripts: Scripts, seed: int) -> None:
    """Traffic of two hours, with bursts and pauses: each chart equals a plain count, all along."""
    chance = random.Random(seed)
    traffic = Traffic(scripts)
    for _ in range(150):
        scripts.now_ms += chance.choice((0, 500, 7_000, 61_000, 200_000))
        traffic.happens(chance.choice(KINDS), chance.randint(1, 9))
        for ring in RINGS:
            found = shown(scripts, ring)
            assert [
                (p.requests, p.tokens, p.denied, p.open, p.estimated) for p in found
            ] == traffic.chart()


def test_the_running_minute_is_shown_at_once_and_kept_when_it_ends(scripts: Scripts) -> None:
    """A request is in the chart before anything else happens, and stays in its minute."""
    scripts.settle((scripts.admit_one(Ask()), 7))
    assert active(scripts) == {0: (1, 7, {})}

    scripts.now_ms += 59 * MINUTE_MS
    assert active(scripts) == {-59: (1, 7, {})}

    scripts.now_ms += MINUTE_MS
    assert active(scripts) == {}


def test_tokens_count_in_the_minute_in_which_they_are_settled(scripts: Scripts) -> None:
    """A long request is a request of its first minute; its tokens are known in its last."""
    verdict = scripts.admit_one(Ask(), lease_s=600)
    scripts.now_ms += 3 * MINUTE_MS
    scripts.settle((verdict, 7))

    assert active(scripts) == {-3: (1, 0, {}), 0: (0, 7, {})}


def test_an_estimate_counts_once_and_is_part_of_the_tokens(scripts: Scripts) -> None:
    """At every ring, beside what was reported; settled again it changes nothing."""
    reported, guessed, another, late = scripts.admit(*[Ask()] * 4)
    scripts.settle((reported, 5))
    for is_retry in (False, True, True):
        scripts.settle((guessed, 7), (another, 2), is_estimate=True, is_retry=is_retry)
    scripts.now_ms += 2 * MINUTE_MS
    scripts.settle((late, 3), is_estimate=True)

    for ring in RINGS:
        found = {p.minute: (p.tokens, p.estimated) for p in shown(scripts, ring) if p.tokens}
        assert list(found.values()) == [(14, 9), (3, 3)]


def test_estimates_are_never_more_than_the_tokens(scripts: Scripts) -> None:
    """Also where somebody wrote over the minutes of the tokens."""
    scripts.settle((scripts.admit_one(Ask()), 7), is_estimate=True)
    scripts.client.hdel(RINGS[0], f"tokens:{scripts.now_ms // MINUTE_MS}")

    (last,) = shown(scripts, RINGS[0])[-1:]

    assert (last.tokens, last.estimated) == (0, 0)


def test_a_small_step_back_of_the_clock_hides_nothing(scripts: Scripts) -> None:
    """The limiter keeps counting in the later minute: the chart ends with it, too."""
    scripts.admit_one(Ask())
    scripts.now_ms -= 1000
    scripts.admit_one(Ask())

    last = shown(scripts, RINGS[0])[-1]

    assert (last.minute, last.requests) == (START_MS // MINUTE_MS, 2)


@pytest.mark.parametrize("junk", [b"", b"x", b"x" * 244, b"12", b"\xff" * 260])
def test_fields_that_are_not_the_scripts_own_are_empty(scripts: Scripts, junk: bytes) -> None:
    """Whatever somebody wrote into a ring, a chart of zeros comes out, not an error."""
    names = ("seconds", "minutes", "tokens", "running", "denied:agent", "open", "estimated")
    fields = {**dict.fromkeys(names, junk), "tokens:x": junk, "more": junk}
    if len(junk) == 244:  # the length of a series of requests, from a time long past
        fields.pop("seconds")
    scripts.client.hset(RINGS[0], mapping=fields)

    assert active(scripts) == {}


async def test_an_idle_ring_is_sixty_zeros_of_redis_time(redis_url: str) -> None:
    """The newest minute is that of the server's clock."""
    client = connect(RedisAddress(redis_url), timeout_s=2)
    before, _ = await client.time()
    minutes = await last_hour(client, keys.GLOBAL_RING)
    after, _ = await client.time()
    await client.aclose()

    assert len(minutes) == 60
    assert minutes[-1].minute in (before // 60, after // 60)
    assert [b.minute - a.minute for a, b in pairwise(minutes)] == [1] * 59
    assert {(p.requests, p.tokens, p.open, p.estimated) for p in minutes} == {(0, 0, 0, 0)}
    assert not any(point.denied for point in minutes)


async def test_the_hours_of_many_rings_take_one_round_trip(redis_url: str, look: Look) -> None:
    """In the order of the rings, all up to the same minute."""
    scripts = Scripts(look.redis)
    seconds, _ = look.redis.time()
    scripts.now_ms = int(seconds) * 1000
    scripts.admit(*[Ask(agent="a1")] * 2, Ask(agent="a2"))
    rings = [keys.agent_ring(ORG, agent) for agent in ("a2", "idle", "a1")]
    client = connect(RedisAddress(redis_url), timeout_s=2)
    look.redis.config_resetstat()

    hours = await last_hours(client, [*rings, keys.org_ring(ORG)])

    assert [sum(point.requests for point in hour) for hour in hours] == [1, 0, 2, 3]
    assert len({hour[-1].minute for hour in hours}) == 1
    assert look.redis.info("commandstats")["cmdstat_exec"]["calls"] == 1
    await client.aclose()


async def test_errors_tell_an_outage_from_a_broken_key(redis_url: str) -> None:
    """A key of another type is for an operator to look at; a server that is not there is not."""
    client = connect(RedisAddress(redis_url), timeout_s=2)
    await client.set(keys.GLOBAL_RING, "mine")
    with pytest.raises(LimiterBrokenError, match="WRONGTYPE"):
        await last_hour(client, keys.GLOBAL_RING)
    await client.aclose()

    nobody = connect(RedisAddress("redis://127.0.0.1:1/0"), timeout_s=2)
    with pytest.raises(LimiterUnavailableError):
        await last_hour(nobody, keys.GLOBAL_RING)
    await nobody.aclose()

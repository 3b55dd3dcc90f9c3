"""What the scripts do when keys are lost, foreign or damaged, the clock steps, memory is out."""

import struct

import pytest
import redis
from script_calls import AGENT, HOUR_MS, MONTH, ORG, Ask, Scripts

from lua import keys

FIVE_KEYS = (
    keys.agent_ring(ORG, AGENT),
    keys.org_ring(ORG),
    keys.GLOBAL_RING,
    keys.month_tokens(ORG),
    keys.inflight(ORG),
)
OTHER = Ask("22222222-2222-4222-8222-222222222222", "b1", needed=3)
MINE = Ask(needed=5)


def types(scripts: Scripts) -> list[bytes]:
    """The types of the five keys."""
    return [scripts.client.type(key) for key in FIVE_KEYS]


RIGHT_TYPES = [b"hash", b"hash", b"hash", b"hash", b"zset"]


@pytest.mark.parametrize("key", FIVE_KEYS)
@pytest.mark.parametrize("elapsed_ms", [0, 500, 2000])
def test_admitting_heals_a_key_of_a_foreign_type(
    scripts: Scripts, key: str, elapsed_ms: int
) -> None:
    """It starts again and is reported, whenever it happened; the batch's others are served."""
    scripts.admit(MINE, OTHER)
    scripts.client.set(key, "foreign")
    scripts.now_ms += elapsed_ms

    verdicts = scripts.admit(OTHER, MINE, OTHER)

    assert [v.admitted for v in verdicts] == [True] * 3
    assert [v.used[1] for v in verdicts if v.ask == OTHER] == [2, 3]
    assert scripts.healed == 1
    assert types(scripts) == RIGHT_TYPES
    assert scripts.client.ttl(key) > 0
    scripts.admit(MINE)
    assert scripts.healed == 0


@pytest.mark.parametrize("key", FIVE_KEYS)
def test_settling_gets_past_a_key_of_a_foreign_type(scripts: Scripts, key: str) -> None:
    """The tokens of everybody in the batch count once, and nothing is held below zero."""
    mine, other = scripts.admit(MINE, OTHER)
    scripts.client.set(key, "foreign")
    scripts.now_ms += 1500

    assert scripts.settle((other, 2), (mine, 4)) == [1, 1]
    assert scripts.month() == (4, 0 if key != keys.inflight(ORG) else 5)
    assert scripts.month(OTHER.org) == (2, 0)
    scripts.admit(MINE)
    assert types(scripts) == RIGHT_TYPES


@pytest.mark.parametrize("key", FIVE_KEYS)
def test_a_denial_leaves_a_foreign_key_alone(scripts: Scripts, key: str) -> None:
    """Nothing is admitted, so nothing is written, not even in order to heal."""
    scripts.client.set(key, "foreign")
    before = scripts.contents()

    assert scripts.admit_one(Ask(agent_rpm=0, ceiling=0)).level == "agent"
    assert (scripts.contents(), scripts.healed) == (before, 0)


@pytest.mark.parametrize("value", ["", "many", "1.5", "99999999999999999999", " 7", "nan", "inf"])
@pytest.mark.parametrize("field", [MONTH, f"{MONTH}:held"])
def test_a_month_field_that_is_no_integer_starts_again(
    scripts: Scripts, field: str, value: str
) -> None:
    """It is replaced and reported when it is written next; nobody is admitted without limit."""
    first = scripts.admit_one(Ask(needed=2))
    scripts.client.hset(keys.month_tokens(ORG), field, value)

    second = scripts.admit_one(Ask(needed=2))
    healed = scripts.healed
    assert scripts.settle((first, 3), (second, 4)) == [1, 1]

    assert second.admitted
    assert healed + scripts.healed == 1
    scripts.now_ms += 61_000
    scripts.admit_one(Ask())
    assert scripts.month() == (7, 0)


def test_a_damaged_hold_is_not_released_below_zero(scripts: Scripts) -> None:
    """Where the settling is the first to write it again."""
    verdict = scripts.admit_one(Ask(needed=2))
    scripts.client.hset(keys.month_tokens(ORG), f"{MONTH}:held", "many")

    assert scripts.settle((verdict, 3)) == [1]
    assert (scripts.month(), scripts.healed) == ((3, 0), 1)


@pytest.mark.parametrize("field", [MONTH, f"{MONTH}:held"])
@pytest.mark.parametrize("value", ["nan", "-nan", "many"])
def test_a_damaged_month_does_not_lift_the_ceiling(
    scripts: Scripts, field: str, value: str
) -> None:
    """What does not read as a number counts as none: three of ten fit under thirty, no more."""
    scripts.client.hset(keys.month_tokens(ORG), field, value)

    verdicts = scripts.admit(*[Ask(ceiling=30, needed=10)] * 4)

    assert [v.admitted for v in verdicts] == [True, True, True, False]


@pytest.mark.parametrize("value", ["inf", "1e400", "99999999999999999999"])
def test_a_damaged_month_does_not_deny_for_ever(scripts: Scripts, value: str) -> None:
    """A number beyond every ceiling is no integer of ours: it starts again."""
    scripts.client.hset(keys.month_tokens(ORG), MONTH, value)

    assert scripts.admit_one(Ask(ceiling=2**53 - 1, needed=10)).admitted


def test_a_foreign_member_in_the_inflight_set_harms_nobody(scripts: Scripts) -> None:
    """It holds nothing; the organization and the batch's others are decided as ever."""
    scripts.admit(MINE, OTHER)
    scripts.client.zadd(keys.inflight(ORG), {"foreign": 1})
    scripts.now_ms += 1000

    assert [v.admitted for v in scripts.admit(OTHER, MINE)] == [True, True]


@pytest.mark.parametrize("name", ["seconds", "minutes", "tokens"])
@pytest.mark.parametrize("value", [b"", b"\x01", b"\xff" * 1000])
def test_a_series_of_a_foreign_length_starts_again(
    scripts: Scripts, name: str, value: bytes
) -> None:
    """A ring packed by another version reads as empty, and is written in full."""
    first = scripts.admit_one(MINE)
    length = len(scripts.client.hget(keys.org_ring(ORG), "seconds"))
    scripts.client.hset(keys.org_ring(ORG), name, value)

    second = scripts.admit_one(MINE)

    assert second.used == (2, 1 if name == "seconds" else 2, 2)
    assert scripts.settle((first, 5), (second, 6)) == [1, 1]
    scripts.now_ms += 60_000
    assert scripts.settle((scripts.admit_one(MINE), 7)) == [1]
    seconds, minutes, tokens = scripts.client.hmget(
        keys.org_ring(ORG), "seconds", "minutes", "tokens"
    )
    assert len(seconds) == length
    assert struct.unpack(">61I", minutes)[-1] == (1 if name == "seconds" else 2)
    assert struct.unpack(">I60Q", tokens)[-1] == 11


def test_holds_of_a_lost_month_are_not_released_twice(scripts: Scripts) -> None:
    """The month's hash is lost alone: what was held in it is gone, never below zero."""
    before = scripts.admit(Ask(needed=10), Ask(needed=20))
    scripts.now_ms += 5
    scripts.client.delete(keys.month_tokens(ORG))
    scripts.now_ms += 5
    after = scripts.admit_one(Ask(needed=7))
    assert scripts.month() == (0, 7)

    assert scripts.settle((before[0], 1)) == [1]
    assert scripts.month() == (1, 7)
    scripts.now_ms += HOUR_MS
    assert scripts.admit_one(Ask(needed=2), lease_s=7200).tokens_held == 2
    assert scripts.settle((before[1], 1), (after, 1)) == [1, 1]
    assert scripts.month() == (3, 2)


def test_settling_first_after_a_lost_month_holds_nothing_below_zero(scripts: Scripts) -> None:
    """The settling itself begins the new hash, and finds no hold there."""
    verdict = scripts.admit_one(Ask(needed=10))
    scripts.now_ms += 5
    scripts.client.delete(keys.month_tokens(ORG))

    assert scripts.settle((verdict, 4)) == [1]
    assert scripts.settle((verdict, 4), is_retry=True) == [0]
    assert scripts.month() == (4, 0)
    assert scripts.client.ttl(keys.month_tokens(ORG)) > 0


def test_holds_of_a_lost_inflight_set_do_not_stay(scripts: Scripts) -> None:
    """Nobody could release them any more: what is held is what is open."""
    lost = scripts.admit_one(Ask(needed=10))
    scripts.now_ms += 5
    scripts.client.delete(keys.inflight(ORG))
    scripts.now_ms += 61_000

    assert scripts.admit_one(Ask(needed=1)).admitted
    assert scripts.month() == (0, 1)
    assert scripts.settle((lost, 4)) == [1]
    assert scripts.month() == (4, 1)


@pytest.mark.parametrize("back_ms", [1, 5_000, 600_000])
def test_a_hold_is_released_also_after_the_clock_stepped_back(
    scripts: Scripts, back_ms: int
) -> None:
    """Admitted before the month's hash began, by the clock: the hold is there, and goes."""
    early = scripts.admit_one(Ask(needed=10))
    scripts.now_ms -= back_ms
    late = scripts.admit_one(Ask(needed=20))
    assert scripts.month() == (0, 30)

    assert scripts.settle((late, 2)) == [1]
    assert scripts.month() == (2, 10)
    assert scripts.settle((early, 1)) == [1]
    assert scripts.month() == (3, 0)


@pytest.mark.parametrize("elapsed_ms", [0, 61_000])
def test_out_of_memory_admits_nothing_by_halves(scripts: Scripts, elapsed_ms: int) -> None:
    """The refused script wrote nothing, also where it had leases to release; then all is well."""
    scripts.admit(Ask(needed=5), OTHER, lease_s=30)
    scripts.now_ms += elapsed_ms
    before = scripts.contents()
    scripts.client.config_set("maxmemory-policy", "noeviction")
    scripts.client.config_set("maxmemory", 1)

    with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
        scripts.admit(OTHER, Ask(needed=7))

    assert scripts.contents() == before
    scripts.client.config_set("maxmemory", 0)
    assert [v.admitted for v in scripts.admit(OTHER, Ask(needed=7))] == [True, True]
    assert scripts.month() == (0, 12 if elapsed_ms == 0 else 7)


def test_out_of_memory_settles_nothing_by_halves(scripts: Scripts) -> None:
    """The refused settlings stay open with their holds, and count once when sent again."""
    mine, other = scripts.admit(MINE, OTHER)
    before = scripts.contents()
    scripts.client.config_set("maxmemory-policy", "noeviction")
    scripts.client.config_set("maxmemory", 1)

    with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
        scripts.settle((mine, 4), (other, 2))

    assert scripts.contents() == before
    scripts.client.config_set("maxmemory", 0)
    assert scripts.settle((mine, 4), (other, 2)) == [1, 1]
    assert (scripts.month(), scripts.month(OTHER.org)) == ((4, 0), (2, 0))

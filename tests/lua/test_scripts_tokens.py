"""Tokens: held and settled, in the right month, to the last one, on every supported server."""

import pytest
from script_calls import HOUR_MS, MONTH, ORG, Ask, Scripts

from lua import keys


def test_a_lapsed_lease_makes_room_before_tokens_deny(scripts: Scripts) -> None:
    """Also when the organization was admitted in this very second, so nothing else looks."""
    scripts.now_ms += 500
    first = scripts.admit_one(Ask(ceiling=20, needed=10), lease_s=1)
    scripts.now_ms += 700
    assert scripts.admit_one(Ask(ceiling=20, needed=10)).tokens_held == 20
    scripts.now_ms += 400

    third = scripts.admit_one(Ask(ceiling=20, needed=10))

    assert (third.admitted, third.tokens_held) == (True, 20)
    assert scripts.month() == (0, 20)
    assert scripts.settle((first, 7)) == [1]
    assert scripts.month() == (7, 20)


def test_a_batch_sees_its_own_holds_where_nothing_else_is_open(scripts: Scripts) -> None:
    """In a second in which the organization was admitted and settled: the ceiling holds."""
    scripts.settle((scripts.admit_one(Ask(ceiling=20)), 0))

    verdicts = scripts.admit(*[Ask(ceiling=20, needed=10)] * 4)

    assert [v.admitted for v in verdicts] == [True, True, False, False]
    assert scripts.month() == (0, 20)


def test_extra_tokens_are_held_as_far_as_there_is_room(scripts: Scripts) -> None:
    """What is needed decides; what may come on top shrinks to the room that is left."""
    asks = [Ask(ceiling=100, needed=10, extra=extra) for extra in (50, 50, 0)]

    assert [v.held for v in scripts.admit(*asks)] == [60, 40, 0]
    assert scripts.month() == (0, 100)


def test_usage_above_what_was_held_is_counted_in_full(scripts: Scripts) -> None:
    """Settling is never clamped and never refused; the next request feels it."""
    verdict = scripts.admit_one(Ask(ceiling=100, needed=10))

    assert scripts.settle((verdict, 5000)) == [1]
    assert scripts.month() == (5000, 0)
    assert scripts.admit_one(Ask(ceiling=100)).level == "tokens"


def test_usage_counts_in_the_month_of_the_admission(scripts: Scripts) -> None:
    """A request that runs over midnight of the last day settles where its hold is."""
    scripts.now_ms = 1_796_083_199_000  # 2026-11-30T23:59:59Z
    verdict = scripts.admit_one(Ask(needed=10))
    scripts.now_ms += 2000

    assert scripts.admit_one(Ask(needed=3)).tokens_held == 3
    assert scripts.settle((verdict, 8)) == [1]
    assert scripts.month(name="2026-11") == (8, 0)
    assert scripts.month(name="2026-12") == (0, 3)


@pytest.mark.parametrize("ceiling", [200_000_000_000_000, 2**53 - 1])
def test_large_ceilings_are_exact_to_the_token(scripts: Scripts, ceiling: int) -> None:
    """Just below the ceiling five more fit and six do not; no number is rounded or refused."""
    scripts.client.hset(keys.month_tokens(ORG), MONTH, ceiling - 15)
    ten = scripts.admit_one(Ask(ceiling=ceiling, needed=10))
    assert (ten.tokens_used, ten.tokens_held) == (ceiling - 15, 10)

    assert scripts.admit_one(Ask(ceiling=ceiling, needed=6)).level == "tokens"
    five = scripts.admit_one(Ask(ceiling=ceiling, needed=5))

    assert (five.admitted, five.tokens_held) == (True, 15)
    assert scripts.settle((ten, 10), (five, 5)) == [1, 1]
    assert scripts.month() == (ceiling, 0)
    assert scripts.admit_one(Ask(ceiling=ceiling)).level == "tokens"


def test_settlements_of_large_sums_are_exact(scripts: Scripts) -> None:
    """The month, and a repetition of a settling of nearly 2^53 tokens at once."""
    verdict = scripts.admit_one(Ask(needed=2**53 - 1))

    assert scripts.month() == (0, 2**53 - 1)
    assert scripts.settle((verdict, 2**53 - 1)) == [1]
    assert scripts.settle((verdict, 2**53 - 1), is_retry=True) == [0]
    assert scripts.month() == (2**53 - 1, 0)


def test_a_settling_that_lapsed_long_ago_still_counts_once(scripts: Scripts) -> None:
    """Its hold was released with its lease; what was really used is owed all the same."""
    verdict = scripts.admit_one(Ask(needed=10), lease_s=1)
    scripts.now_ms += 2 * HOUR_MS
    scripts.admit_one(Ask())
    scripts.now_ms += HOUR_MS + 60_000
    scripts.admit_one(Ask())
    assert scripts.client.zscore(keys.inflight(ORG), verdict.member) is None

    assert scripts.settle((verdict, 4)) == [1]
    assert scripts.settle((verdict, 4), is_retry=True) == [0]
    assert scripts.month() == (4, 0)


def test_a_settling_that_stands_twice_in_a_batch_counts_once(scripts: Scripts) -> None:
    """Its member is still in the set when the second one is looked up."""
    verdict = scripts.admit_one(Ask(needed=10))

    assert scripts.settle((verdict, 3), (verdict, 3)) == [1, 0]
    assert scripts.month() == (3, 0)

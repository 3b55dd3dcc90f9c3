"""Pressure orders every list, so it must agree with what people mean by nearer to a limit."""

from hypothesis import given
from hypothesis import strategies as st

from db.limits import MAX_LIMIT
from graphql_api.pressure import pressure

COUNTS = st.integers(0, MAX_LIMIT)
LIMITS = st.integers(1, MAX_LIMIT)
USES = st.tuples(COUNTS, st.none() | COUNTS)


def test_what_no_limit_holds_is_under_no_pressure() -> None:
    """Whatever it uses."""
    assert pressure() == pressure((5, None), (7, None)) == 0.0


def test_the_three_that_are_often_mixed_up() -> None:
    """No limit, a limit that nothing passes, and one that was lowered below the use."""
    assert [pressure((6, limit)) for limit in (None, 0, 4, 6, 12)] == [0.0, 1.0, 1.5, 1.0, 0.5]


@given(COUNTS, LIMITS)
def test_it_reaches_one_with_the_limit(used: int, limit: int) -> None:
    """At the limit it is 1, below it is not above, above it is not below."""
    assert pressure((limit, limit)) == 1.0
    assert (pressure((used, limit)) <= 1.0) or used > limit
    assert (pressure((used, limit)) >= 1.0) or used < limit


@given(COUNTS, COUNTS, LIMITS)
def test_more_use_is_never_less_pressure(used: int, more: int, limit: int) -> None:
    """Of two with one limit the one that uses more is not below the other."""
    assert pressure((min(used, more), limit)) <= pressure((max(used, more), limit))


@given(COUNTS, LIMITS, LIMITS)
def test_a_lower_limit_is_never_less_pressure(used: int, limit: int, other: int) -> None:
    """Of two with one use the one with the lower limit is not below the other."""
    assert pressure((used, max(limit, other))) <= pressure((used, min(limit, other)))


@given(st.lists(USES, max_size=5), st.randoms())
def test_the_tightest_limit_counts(uses: list[tuple[int, int | None]], chance: object) -> None:
    """In whatever order they come, the largest part of any one of them."""
    shuffled = sorted(uses, key=lambda _: chance.random())  # type: ignore[attr-defined]

    assert pressure(*shuffled) == max([0.0, *(pressure(use) for use in uses)])

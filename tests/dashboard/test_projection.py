"""Where the month is heading."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.projection import TOO_EARLY, Projection, month_of, projection

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def heading(
    used: int, ceiling: int | None, now: datetime, created_at: datetime = LONG_AGO
) -> Projection | None:
    return projection(used, ceiling, created_at=created_at, now=now)


@pytest.mark.parametrize(
    ("now", "tokens"),
    [
        (datetime(2026, 11, 16, tzinfo=UTC), 200),  # 15 of 30 days
        (datetime(2026, 2, 15, tzinfo=UTC), 200),  # 14 of 28
        (datetime(2028, 2, 15, 12, tzinfo=UTC), 200),  # 14.5 of 29, a leap year
        (datetime(2026, 12, 16, 12, tzinfo=UTC), 200),  # 15.5 of 31, the year's end
    ],
)
def test_half_a_month_gone_twice_the_use_to_come(now: datetime, tokens: int) -> None:
    """Months have their own length."""
    assert heading(100, None, now) == Projection(tokens, None)


def test_the_pace_counts_from_when_there_was_an_organization() -> None:
    """One of the 21st is not held to be idle for twenty days."""
    created = datetime(2026, 11, 21, tzinfo=UTC)

    found = heading(50, None, datetime(2026, 11, 26, tzinfo=UTC), created)

    assert found == Projection(100, None)


@pytest.mark.parametrize(
    "now",
    [
        datetime(2026, 11, 1, tzinfo=UTC),
        datetime(2026, 11, 1, 0, 1, tzinfo=UTC),
        datetime(2026, 11, 1, tzinfo=UTC) + TOO_EARLY - timedelta(microseconds=1),
    ],
)
def test_nothing_is_said_in_the_first_hours(now: datetime) -> None:
    """A minute of traffic says nothing of a month, nor does an hour of a new organization."""
    assert heading(1000, 10_000, now) is None
    assert heading(1000, 10_000, datetime(2026, 11, 15, tzinfo=UTC), now.replace(day=15)) is None


def test_something_is_said_after_them() -> None:
    """From the sixth hour on."""
    assert heading(6, None, datetime(2026, 11, 1, 6, tzinfo=UTC)) == Projection(720, None)


def test_an_organization_of_the_future_is_too_new() -> None:
    """Its server's clock may be ahead of ours."""
    now = datetime(2026, 11, 15, tzinfo=UTC)

    assert heading(1, None, now, now + timedelta(days=1)) is None


def test_it_tells_when_the_ceiling_is_reached() -> None:
    """10 a day from the first, and 200: that is the 21st."""
    found = heading(100, 200, datetime(2026, 11, 11, tzinfo=UTC))

    assert found == Projection(300, datetime(2026, 11, 21, tzinfo=UTC))


@pytest.mark.parametrize("ceiling", [300, 301, 100, 99, 0, None])
def test_no_day_is_told_where_there_is_none_to_come(ceiling: int | None) -> None:
    """The ceiling is not reached in this month, is reached already, or there is none."""
    assert heading(100, ceiling, datetime(2026, 11, 11, tzinfo=UTC)) == Projection(300, None)


def test_no_use_stays_no_use() -> None:
    """Also under a ceiling of 0."""
    now = datetime(2026, 11, 11, tzinfo=UTC)

    assert heading(0, 0, now) == Projection(0, None)
    assert heading(0, 100, now) == Projection(0, None)


def test_the_month_is_that_of_utc() -> None:
    """It is December in Tokyo while Ibex counts for November."""
    tokyo = datetime(2026, 12, 1, 8, 59, tzinfo=timezone(timedelta(hours=9)))

    start, end = month_of(tokyo)

    assert (start, end) == (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))


@given(
    used=st.integers(0, 2**53 - 1),
    ceiling=st.none() | st.integers(0, 2**53 - 1),
    now=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis takes naive bounds
)
def test_it_never_heads_below_what_is_used(used: int, ceiling: int | None, now: datetime) -> None:
    """And a day that is told is within the rest of the month."""
    found = heading(used, ceiling, now)

    assert found is None or found.tokens >= used
    if found and found.reached_at:
        assert now <= found.reached_at <= month_of(now)[1]

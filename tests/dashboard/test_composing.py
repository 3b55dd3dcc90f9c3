"""How what was read becomes the parts of a page."""

from datetime import UTC, datetime

import pytest
from hours import hour, minute, quiet

from dashboard import composing
from dashboard.contexts import Hour, Outage, Pager
from dashboard.memory import Recalled
from dashboard.readings import OverviewReading, Row, Rows
from graphql_api.model import DeniedCounts, Overrides, RateLimits, UsagePoint

URL = "/dashboard/organizations/1"
LIMITS = RateLimits(
    "1", None, 600, None, 1000, None, False, Overrides(None, None), 5, 7, 0, 3, None, 1, None, None
)  # fmt: skip


def rows(total: int | None, page: int = 1, pages: int = 1, shown: int = 1) -> Rows:
    return Rows((Row("2", "x", LIMITS),) * shown, total, page, pages)


def test_an_hour_is_the_sum_of_its_minutes() -> None:
    """Each count for itself."""
    usage = hour(lambda place: minute(place, 10 * place, DeniedCounts(1, 2, 3, 4), 5, 6))

    added = composing.hour(usage)

    assert added == Hour(1770, 17_700, DeniedCounts(60, 120, 180, 240), 300, 360)
    assert added is not None
    assert added.denied_in_all == 600


def test_an_unknown_hour_is_no_quiet_one() -> None:
    """Nothing known is not zero, and no reason to say that nothing was sent."""
    assert composing.hour(()) is None
    assert composing.hour(quiet()) == Hour(0, 0, DeniedCounts(), 0, 0)
    assert composing.is_idle(quiet())
    assert not composing.is_idle(())


@pytest.mark.parametrize(
    "busy", [minute(1), minute(denied=DeniedCounts(org=1)), minute(undecided=1)]
)
def test_one_request_ends_the_quiet(busy: UsagePoint) -> None:
    """Also one that was denied, or forwarded without a decision."""
    usage = hour(lambda place: busy if place == 30 else minute())

    assert not composing.is_idle(usage)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (rows(1), Pager("1 agent, the highest pressure on top", None, None)),
        (rows(0), Pager("0 agents, the highest pressure on top", None, None)),
        (
            rows(120, 1, 3),
            Pager("Page 1 of 3: 120 agents, the highest pressure on top", None, f"{URL}?page=2"),
        ),
        (
            rows(120, 2, 3),
            Pager("Page 2 of 3: 120 agents, the highest pressure on top", URL, f"{URL}?page=3"),
        ),
        (
            rows(120, 3, 3),
            Pager("Page 3 of 3: 120 agents, the highest pressure on top", f"{URL}?page=2", None),
        ),
        (rows(None, shown=50), Pager("The first 50 agents, the oldest on top", None, None)),
    ],
)
def test_a_list_says_where_it_goes_on(listed: Rows, expected: Pager) -> None:
    """The first page has the bare address; where the length is not known there are no others."""
    assert composing.pager(listed, URL, "agents") == expected


def test_a_chart_is_put_in_words() -> None:
    """For who does not see it: totals, the peak, the limit, what was not decided or reported."""
    usage = hour(lambda place: minute(1000 if place == 7 else 1, 50, DeniedCounts(agent=1)))
    open_ = hour(lambda place: minute(1, undecided=int(place == 3)))

    assert composing.requests_chart(usage, 60, "x").words == (
        "Last 60 minutes: 1\u202f059 requests admitted; 60 denied;"
        " at most 1\u202f000 admitted in a minute; limit 60."
    )
    assert composing.requests_chart(open_, None, "x").words == (
        "Last 60 minutes: 60 requests admitted; 0 denied; at most 1 admitted in a minute;"
        " 1 forwarded without a decision; no limit."
    )
    assert composing.tokens_chart(usage, "x").words == (
        "Last 60 minutes: 3\u202f000 tokens used; at most 50 in a minute."
    )
    guessed = hour(lambda place: minute(1, 50, estimated=20 * (place < 2)))
    assert composing.tokens_chart(guessed, "x").words == (
        "Last 60 minutes: 3\u202f000 tokens used, 40 of them estimated; at most 50 in a minute."
    )
    unknown = "The numbers of the last 60 minutes are not known."
    assert composing.requests_chart((), 60, "x").words == unknown
    assert composing.tokens_chart((), "x").words == unknown


def test_an_organizations_line_has_its_ceiling() -> None:
    """And what is in flight; an hour of minutes is an agent's."""
    line = composing.organization_line(Row("2", "x", LIMITS, (), DeniedCounts(org=4)))

    assert (line.requests.used, line.requests.limit) == (5, 600)
    assert line.tokens is not None
    assert (line.tokens.used, line.tokens.limit, line.in_flight) == (7, 1000, 3)
    assert (line.denied, line.hour) == (DeniedCounts(org=4), None)


def test_an_outage_tells_what_is_missing() -> None:
    """And of when the numbers are."""
    as_of = datetime(2026, 11, 30, tzinfo=UTC)
    reading = OverviewReading(None, (), rows(1), as_of)

    assert composing.outage(Recalled(reading, None)) is None
    assert composing.outage(Recalled(reading, "redis")) == Outage("redis", as_of)

"""Hours of usage to draw."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec import structs

from graphql_api.model import DeniedCounts, UsagePoint

BEGIN = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
NONE_DENIED = DeniedCounts()


def minute(
    requests: int = 0,
    tokens: int = 0,
    denied: DeniedCounts = NONE_DENIED,
    undecided: int = 0,
    estimated: int = 0,
) -> UsagePoint:
    """A minute of an hour; its time is given by the hour."""
    return UsagePoint(BEGIN, requests, tokens, denied, undecided, estimated)


def hour(of: Callable[[int], UsagePoint]) -> tuple[UsagePoint, ...]:
    """Sixty minutes, of which the last is running."""
    minutes = (of(place) for place in range(60))
    return tuple(
        structs.replace(point, timestamp=BEGIN + timedelta(minutes=place))
        for place, point in enumerate(minutes)
    )


def quiet() -> tuple[UsagePoint, ...]:
    """An hour in which nothing happened."""
    return hour(lambda _: minute())

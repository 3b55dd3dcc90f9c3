"""Redis in every kind of trouble, while agents ask: nobody fails, and every token counts once."""

import pytest
from outage_leg import Leg, Walk
from redis_legs import LEGS

BY_VERSION = {
    "Redis loading",
    "Redis out of memory",
    "primary demoted, nobody takes over",
    "replica promoted",
}
"""Legs that the oldest version answers in other words."""


@pytest.mark.parametrize("leg", LEGS, ids=lambda leg: leg.name)
def test_redis(walk: Walk, leg: Leg) -> None:
    """Nobody fails, nothing is doubled, and what is lost is at most what the leg allows."""
    walk(leg, "valkey")


@pytest.mark.parametrize("leg", LEGS, ids=lambda leg: leg.name)
@pytest.mark.parametrize("flavor", ["redis6", "redis7"])
def test_older_redis(walk: Walk, leg: Leg, flavor: str, request: pytest.FixtureRequest) -> None:
    """The same by older ones; a full run walks every leg on each of them."""
    is_quick = (flavor, leg.name in BY_VERSION) == ("redis6", True)
    if not is_quick and not request.config.getoption("--outages-page", None):
        pytest.skip("a full run walks it")
    walk(leg, flavor)

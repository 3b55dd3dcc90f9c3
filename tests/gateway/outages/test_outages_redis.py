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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every leg on each of the older ones in a full run; otherwise what the oldest words apart."""
    if "flavor" not in metafunc.fixturenames:
        return
    if metafunc.config.getoption("--outages-page", None):
        pairs = [(flavor, leg) for flavor in ("redis6", "redis7") for leg in LEGS]
    else:
        pairs = [("redis6", leg) for leg in LEGS if leg.name in BY_VERSION]
    names = [f"{flavor}-{leg.name}" for flavor, leg in pairs]
    metafunc.parametrize(("flavor", "leg"), pairs, ids=names)


def test_older_redis(walk: Walk, leg: Leg, flavor: str) -> None:
    """The same by older ones."""
    walk(leg, flavor)

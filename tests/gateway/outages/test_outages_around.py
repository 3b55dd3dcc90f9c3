"""Postgres and upstreams in trouble, while agents ask: everybody is decided all the time."""

import pytest
from outage_leg import Leg, Walk
from postgres_legs import LEGS as POSTGRES
from upstream_legs import LEGS as UPSTREAM


@pytest.mark.parametrize("leg", POSTGRES, ids=lambda leg: leg.name)
def test_postgres(walk: Walk, leg: Leg) -> None:
    """Nobody notices, nothing is lost, and the ledger has it all soon after."""
    assert walk(leg, "valkey").told == 0


@pytest.mark.parametrize("leg", UPSTREAM, ids=lambda leg: leg.name)
def test_upstream(walk: Walk, leg: Leg) -> None:
    """What the upstream does not answer is told to be so, and charges nothing."""
    found = walk(leg, "valkey")
    assert (found.told > 0) is ("slow" not in leg.name)

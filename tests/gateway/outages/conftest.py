"""One rig at a time, kept for the next leg where that one wants the same and nothing went wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from outage_leg import FULL, QUICK, Figures, Leg, Walk, loss_bound, run
from outage_page import write
from outage_rig import Rig
from servers import eventually


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--outages-page",
        type=Path,
        help="walk every leg on every server, for longer, and write the figures into this page",
    )


def page_of(config: pytest.Config) -> Path | None:
    """Where the figures go; None in a quick run."""
    return config.getoption("--outages-page", None)


class _Kept:
    """The rig that stands, and for what it was made."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._number = 0
        self._rig: Rig | None = None
        self._made_for: tuple[str, int] | None = None

    def get(self, flavor: str, deadline_ms: int) -> Rig:
        """One of which every part works."""
        if self._rig and self._made_for == (flavor, deadline_ms) and _is_whole(self._rig):
            return self._rig
        self.close()
        self._number += 1
        home = self._home / f"outages-{self._number}"
        home.mkdir()
        self._rig, self._made_for = Rig(home, flavor, deadline_ms), (flavor, deadline_ms)
        return self._rig

    def close(self) -> None:
        if self._rig:
            rig, self._rig = self._rig, None
            rig.close()


def _is_whole(rig: Rig) -> bool:
    return rig.gateway.running and eventually(lambda: rig.readyz()["status"] == "ok", 10)


@pytest.fixture(scope="session")
def _kept(servers_home: Path) -> Iterator[_Kept]:
    kept = _Kept(servers_home)
    yield kept
    kept.close()


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Iterator[list[Figures]]:
    """What was measured so far; written down at the end where that was asked for."""
    found: list[Figures] = []
    yield found
    if page := page_of(pytestconfig):
        write(page, found)


@pytest.fixture
def walk(_kept: _Kept, figures: list[Figures], pytestconfig: pytest.Config) -> Walk:
    """`walk(leg, flavor)`: the figures, after what holds for every leg was asserted."""
    pace = FULL if page_of(pytestconfig) else QUICK

    def go(leg: Leg, flavor: str) -> Figures:
        rig = _kept.get(flavor, leg.deadline_ms)
        opened = rig.readyz()["limiter"]["admitted_open"]
        try:
            found = run(rig, leg, pace)
            limiter = rig.readyz()["limiter"]
            assert found.failed == 0, found
            assert found.doubled == 0, found
            assert found.lost <= loss_bound(leg), found
            assert limiter["settlements_lost"] == 0
            assert limiter["admitted_open"] - opened == found.opened
            assert leg.opens or found.opened == 0, found
            assert found.opened > 0 or not leg.is_outage, found
            assert "internal error" not in rig.gateway.log
            assert "never retrieved" not in rig.gateway.log
        except BaseException:
            _kept.close()
            raise
        figures.append(found)
        return found

    return go

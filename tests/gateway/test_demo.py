"""The simulated agents: how often they ask, against what they may."""

from collections.abc import Sequence
from itertools import cycle, takewhile

from gateway.cli.demo_organization import AGENT_RPM, ORGANIZATION_RPM
from gateway.demo import OVERRUN_PAUSES, STEADY_PAUSES

TEN_MINUTES = 600.0


def times(pauses: Sequence[float]) -> list[float]:
    """When an agent asks during ten minutes, if it is answered at once."""
    now = 0.0

    def asked() -> float:
        nonlocal now
        now += next(turns)
        return now

    turns = cycle(pauses)
    return list(takewhile(lambda time: time < TEN_MINUTES, iter(asked, None)))


def most_in_a_minute(asked: list[float]) -> int:
    """The most requests within any sixty seconds."""
    return max(sum(end - 60 < time <= end for time in asked) for end in asked)


def test_the_steady_agent_stays_below_its_limit() -> None:
    """One agent of the demo shows what a request costs, not what a denial looks like."""
    assert most_in_a_minute(times(STEADY_PAUSES)) < AGENT_RPM


def test_the_other_agent_overruns_its_limit_again_and_again() -> None:
    """Denials are seen within half a minute, and not only once."""
    asked = times(OVERRUN_PAUSES)

    assert asked[AGENT_RPM] < 30
    assert most_in_a_minute(asked[len(asked) // 2 :]) > AGENT_RPM


def test_the_demo_is_no_load() -> None:
    """Both agents together ask a few times a second at most, on average."""
    asked = len(times(STEADY_PAUSES)) + len(times(OVERRUN_PAUSES))

    assert asked / TEN_MINUTES < 3


def test_the_organization_does_not_hide_the_agents_limit() -> None:
    """It is the agent's own limit that denies the overrunning one, not the organization's."""
    steady = most_in_a_minute(times(STEADY_PAUSES))

    assert steady + AGENT_RPM <= ORGANIZATION_RPM

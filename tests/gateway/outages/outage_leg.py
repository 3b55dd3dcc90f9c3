"""One leg of the matrix: break a part while agents ask, mend it, and say what that did to them."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from counters import Counters
from outage_rig import MOST_STATED, Rig
from raw_calls import obeys
from servers import eventually
from steady_load import CLIENTS, Seen, SteadyLoad, p99_ms

PROMPT_MS = 50
"""The limiter's deadline as it is by default."""
PATIENT_MS = 2000
"""A deadline for legs in which nobody may be admitted open, on a busy machine."""
AGENTS = 4
RECOVERS_S = 20.0
SETTLES_S = 20.0
BROKEN = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)
"""What a gateway says of an upstream."""

Act = Callable[[Rig], object]


def nothing(_rig: Rig) -> None:
    """There is nothing to do."""


@dataclass(frozen=True)
class Leg:
    """`breaks` returns when the part is broken, `mends` when it is not any more; where there is
    nothing to mend, it was a blow that is over at once. `prepares` is called before anybody asks.

    `recovered(rig, mended)` says whether all is as before since the part was mended at that time
    (monotonic); by default it is the first request that is decided. `loses`: so many settlements
    may be lost, and `opens`: requests may be admitted without a decision. `holds`: reservations
    that were settled have come back open, and hold their tokens until their leases end.
    """

    name: str
    breaks: Act
    mends: Act = nothing
    prepares: Act = nothing
    recovered: Callable[[Rig, float], bool] | None = None
    loses: int = 0
    opens: bool = True
    holds: bool = False
    of_upstream: bool = False

    @property
    def deadline_ms(self) -> int:
        return PROMPT_MS if self.opens else PATIENT_MS

    @property
    def is_outage(self) -> bool:
        """Whether somebody has to be admitted without a decision."""
        return self.opens and self.mends is not nothing


@dataclass(frozen=True)
class Pace:
    """Seconds of traffic before, during and after."""

    before: float
    during: float
    after: float


QUICK = Pace(0.5, 0.7, 0.5)
FULL = Pace(2, 3, 2)


@dataclass(frozen=True)
class Figures:
    """What the agents saw. `failed`: by us; `told`: answers that say that the upstream is broken.

    Tokens are `lost` where less was counted than the upstream stated, `doubled` where more was.
    """

    leg: str
    flavor: str
    requests: int
    failed: int
    told: int
    opened: int
    before_ms: float
    during_ms: float
    after_ms: float
    recovers_s: float
    lost: int
    doubled: int
    errors: tuple[str, ...]


Walk = Callable[[Leg, str], Figures]
"""Walk a leg on a Redis of that flavor, and assert what holds for each of them."""


@dataclass
class Walked:
    """When it broke, and until when it was not as before (monotonic)."""

    broke: float = 0
    over: float = 0
    recovers_s: float = 0


def run(rig: Rig, leg: Leg, pace: Pace) -> Figures:
    """Walk one leg. Raises AssertionError where it does not recover, or is not settled."""
    leg.prepares(rig)
    tenant = rig.tenant(agents=AGENTS)
    stack = rig.stack
    assert eventually(lambda: all(obeys(stack, it, {"org": 1_000_000}) for it in tenant.agents))
    stated = rig.provider.stated
    load = SteadyLoad(lambda: rig.gateway.port, tenant.agents)
    running = rig.background.begin(load.run())
    try:
        time.sleep(pace.before)
        walked = _walk(rig, leg, load, pace.during)
        time.sleep(pace.after)
    finally:
        load.end()
        assert eventually(running.done, 40)
    counters = Counters(rig.stack, tenant)
    truth = rig.provider.stated - stated
    _settled(rig, leg, counters, truth)
    return _figures((leg, rig.flavor), load, walked, truth - counters.tokens())


def _walk(rig: Rig, leg: Leg, load: SteadyLoad, seconds: float) -> Walked:
    walked = Walked(broke=time.monotonic())
    leg.breaks(rig)
    if leg.mends is not nothing:
        time.sleep(seconds)
        leg.mends(rig)
    walked.recovers_s = _recovery(rig, leg, load, time.monotonic())
    if leg.mends is nothing:
        time.sleep(seconds)
    walked.over = time.monotonic()
    return walked


def _figures(what: tuple[Leg, str], load: SteadyLoad, walked: Walked, difference: int) -> Figures:
    """`difference`: tokens that were stated and not counted."""
    leg, flavor = what
    seen = load.seen
    told = sum(leg.of_upstream and one.status in BROKEN for one in seen)
    well = sum(one.status == HTTPStatus.OK for one in seen)
    return Figures(
        leg=leg.name,
        flavor=flavor,
        requests=len(seen),
        failed=len(seen) - well - told,
        told=told,
        opened=sum(one.is_open for one in seen),
        before_ms=p99_ms([one for one in seen if one.at <= walked.broke]),
        during_ms=p99_ms([one for one in seen if walked.broke < one.at <= walked.over]),
        after_ms=p99_ms([one for one in seen if one.at > walked.over]),
        recovers_s=walked.recovers_s,
        lost=max(0, difference),
        doubled=max(0, -difference),
        errors=tuple(load.errors),
    )


def loss_bound(leg: Leg) -> int:
    """Tokens that may be lost at most."""
    return leg.loses * MOST_STATED


IN_FLIGHT = 2 * CLIENTS
"""What each client can have on the way: a request that is open, and one that is being settled."""


def _recovery(rig: Rig, leg: Leg, load: SteadyLoad, mended: float) -> float:
    def is_over() -> bool:
        return leg.recovered(rig, mended) if leg.recovered else bool(_first(load.seen, mended))

    assert eventually(is_over, RECOVERS_S), f"not recovered: {rig.readyz()}"
    if leg.recovered:
        return time.monotonic() - mended
    return _first(load.seen, mended)[0].at - mended


def _first(seen: list[Seen], since: float) -> list[Seen]:
    return [one for one in seen if one.at > since and one.is_decided][:1]


def _settled(rig: Rig, leg: Leg, counters: Counters, truth: int) -> None:
    """Wait until everything is counted, and what an unread reply holds is released."""
    eventually(lambda: counters.tokens() >= truth, 1)
    assert eventually(lambda: rig.readyz()["limiter"]["unsettled"] == 0, SETTLES_S), rig.readyz()
    if not leg.holds:
        assert eventually(lambda: (counters.held(), counters.open()) == (0, 0), SETTLES_S)

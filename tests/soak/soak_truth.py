"""What has to be counted, by what the upstream has stated and the clients have seen.

A request whose answer came whole costs just what was stated. One that was cut, by its client or by
the upstream, costs what was stated if that had passed, or an estimate of its text: it has bounds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from soak_clients import Call
from soak_upstream import Spent

FRAME_TOKENS = 50
"""What an estimate adds to the text at most."""
WINDOW_S = 60
DENIED = 429
TOKEN_BYTES = 3
"""An estimate finds fewer tokens than one for so many bytes of plain English."""


@dataclass
class Bounds:
    """At least and at most so many tokens, and how many requests are behind them."""

    least: int = 0
    most: int = 0
    exact: int = 0
    cut: int = 0
    free: int = 0

    def add(self, least: int, most: int) -> None:
        self.least += least
        self.most += most
        if most == 0:
            self.free += 1
        elif least == most:
            self.exact += 1
        else:
            self.cut += 1

    def hold(self, tokens: int) -> bool:
        return self.least <= tokens <= self.most


@dataclass
class Truth:
    """By organization: all tokens, of these the ones that were reported, and requests."""

    tokens: dict[str, Bounds] = field(default_factory=dict)
    reported: dict[str, Bounds] = field(default_factory=dict)
    requests: dict[str, Bounds] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


def truth(calls: Iterable[Call], spent: Mapping[str, Spent]) -> Truth:
    """Of all of these calls."""
    found = Truth()
    for call in calls:
        stated = spent.get(call.id)
        if stated and stated.times > 1:
            found.violations.append(f"{call.id} was sent to the upstream {stated.times} times")
        if call.is_whole and call.status == 200 and not call.error and not _is_whole(stated):
            found.violations.append(f"{call.id} looked whole to its client and was not")
        least, most, reported = _cost(call, stated)
        found.tokens.setdefault(call.org_id, Bounds()).add(least, most)
        known = found.reported.setdefault(call.org_id, Bounds())
        known.add(least if least == most else 0, reported)
        found.requests.setdefault(call.org_id, Bounds()).add(*_counts(call))
    return found


def _counts(call: Call) -> tuple[int, int]:
    """At least and at most so many requests: one that was admitted open may be decided late."""
    if call.status == DENIED:
        return 0, 0
    return int(call.status != 0 and not call.is_open), 1


def _is_whole(stated: Spent | None) -> bool:
    return stated is not None and stated.is_whole


def _cost(call: Call, stated: Spent | None) -> tuple[int, int, int]:
    """At least, at most, and at most as reported."""
    if stated is None and not call.has_left:
        return 0, 0, 0
    if stated is None:
        return 0, _estimate(call.sent_bytes), 0
    if call.is_whole and call.status == 200 and not call.error:
        return stated.stated, stated.stated, stated.stated
    if call.is_whole and call.status != 200:
        return 0, 0, 0
    reported = stated.stated if stated.may_have_stated else 0
    # The gateway may not have seen that its client was about to leave, and relayed it whole.
    return 0, stated.stated + _estimate(call.sent_bytes + stated.sent), reported


def _estimate(size: int) -> int:
    return size // TOKEN_BYTES + FRAME_TOKENS


def passed_limit(calls: Iterable[Call], agent_id: str, limit: int) -> str:
    """Where more requests than the limit were admitted by a decision within 60 s; "" if nowhere."""
    admitted = sorted(
        (call for call in calls if _was_admitted(call, agent_id)), key=lambda call: call.head_at
    )
    for at in range(len(admitted) - limit):
        window = admitted[at : at + limit + 1]
        if window[-1].head_at - min(call.began for call in window) < WINDOW_S:
            return f"agent {agent_id} passed its limit of {limit} requests in {WINDOW_S} s"
    return ""


def _was_admitted(call: Call, agent_id: str) -> bool:
    return call.agent_id == agent_id and call.status not in {0, DENIED} and not call.is_open

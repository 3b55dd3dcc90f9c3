"""One request, one answer, in a closed loop: all admitted, half of them, and none."""

from typing import NamedTuple

from closed_loop import Load, LoadError, LoopFigures
from field import Field
from participants import Participant
from stand import typical
from tables import count, micros, table

ADMITTED, HALF, DENIED = "admitted", "half denied", "denied"
MOST_STRAY = 0.05
"""How much of a run may end otherwise than planned: what a limit of one a minute lets pass."""
SLOW_S = 10.0
"""So long that what is under way at the end does not count."""
EXPECTED = {ADMITTED: 0.0, HALF: 0.5, DENIED: 1.0}


class Point(NamedTuple):
    """What is measured."""

    mix: str
    connections: int


USUAL = Point(ADMITTED, 32)
REFUSED = Point(DENIED, 32)
POINTS = (Point(ADMITTED, 1), USUAL, Point(ADMITTED, 256), Point(HALF, 32), REFUSED)
Figures = dict[tuple[str, Point], LoopFigures]


def measure(field: Field) -> Figures:
    """The typical figures of each participant at each point that is for it."""
    found: dict[tuple[str, Point], list[LoopFigures]] = {}
    for _ in range(field.effort.rounds):
        for participant in field.participants:
            for point in _points(field, participant):
                with field.attempt(participant, f"{point.mix}, {point.connections} connections"):
                    figures = field.loop(participant, _load(field, point, participant))
                    if abs(figures.denied - EXPECTED[point.mix]) > MOST_STRAY:
                        raise LoadError(f"{figures.denied:.0%} of the requests were denied")
                    found.setdefault((participant.name, point), []).append(figures)
    return {row: typical(rounds) for row, rounds in found.items()}


def _points(field: Field, participant: Participant) -> list[Point]:
    return [
        point
        for point in POINTS
        if (participant.limits or point.mix == ADMITTED)
        and (point.connections == USUAL.connections or not participant.is_slow)
        and (point in {USUAL, REFUSED} or not field.effort.is_quick)
    ]


def _load(field: Field, point: Point, participant: Participant) -> Load:
    senders = {ADMITTED: field.plenty, HALF: field.mixed(), DENIED: field.tight}[point.mix]
    seconds = SLOW_S if participant.is_slow else field.effort.seconds
    return Load(senders, point.connections, seconds)


def text(field: Field, figures: Figures) -> str:
    """The section."""
    rows = [
        (
            participant.title,
            point.mix,
            str(point.connections),
            count(it.requests_per_s),
            micros(it.gateway_us),
            micros(it.redis_us),
        )
        for participant in field.participants
        for point in POINTS
        if (it := figures.get((participant.name, point)))
    ]
    head = ("", "", "connections", "requests/s", "CPU us/request", "Redis CPU us/request")
    return table(head, rows)

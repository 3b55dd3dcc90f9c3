"""What a gateway adds to a request at a fixed rate, whether it keeps up or not."""

import bench_unary
from chat import Kind
from field import Field
from open_loop import Plan, RateFigures
from participants import DIRECT_ROW, Participant
from stand import typical
from tables import CANNOT, NOTHING, millis, table

RATES = (500, 2000, 5000)
USUAL = 2000
HEADROOM = 0.95
"""A rate that is nearer to what a participant can do at most says nothing about its latency."""
Figures = dict[tuple[str, int], RateFigures]


def measure(field: Field, capacity: bench_unary.Figures) -> Figures:
    """The typical figures of each participant at each rate that it can keep."""
    found: dict[tuple[str, int], list[RateFigures]] = {}
    rates = (USUAL,) if field.effort.is_quick else RATES
    for _ in range(field.effort.rounds):
        for participant in field.participants:
            usual = capacity.get((participant.name, bench_unary.USUAL))
            most = usual.requests_per_s * HEADROOM if usual else 0
            for rate in rates:
                if rate <= most:
                    with field.attempt(participant, f"{rate:,} requests a second"):
                        figures = _run(field, participant, rate)
                        found.setdefault((participant.name, rate), []).append(figures)
    return {row: typical(rounds) for row, rounds in found.items()}


def _run(field: Field, participant: Participant, rate: int) -> RateFigures:
    server = field.server(participant)
    requests = [server.form.request(Kind.CHAT, sender) for sender in field.plenty]
    path = field.stand.keep("plan.json", Plan(server.port, requests, rate, field.effort.seconds))
    return field.stand.figures(field.stand.script("open_loop", path), RateFigures)


def added(figures: Figures, name: str, rate: int) -> RateFigures | None:
    """What it takes longer than without a gateway; None where it does not keep up."""
    it, direct = figures.get((name, rate)), figures.get((DIRECT_ROW, rate))
    if it is None or direct is None:
        return None
    return RateFigures(
        it.p50_ms - direct.p50_ms,
        it.p99_ms - direct.p99_ms,
        it.p999_ms - direct.p999_ms,
        it.sent_late_ms,
    )


def text(field: Field, figures: Figures) -> str:
    """The section."""
    rows = []
    for participant in field.participants:
        for rate in RATES:
            is_direct = participant.name == DIRECT_ROW
            it = figures.get((participant.name, rate))
            it = it if is_direct else added(figures, participant.name, rate)
            if it is not None:
                numbers = (it.p50_ms, it.p99_ms, it.p999_ms, it.sent_late_ms)
                rows.append((participant.title, f"{rate:,}", *map(millis, numbers)))
            elif (DIRECT_ROW, rate) in figures:
                rows.append((participant.title, f"{rate:,}", *[CANNOT] * 3, NOTHING))
                break
    head = ("", "requests/s", "p50 ms", "p99 ms", "p99.9 ms", "generator late, p99 ms")
    return table(head, rows)

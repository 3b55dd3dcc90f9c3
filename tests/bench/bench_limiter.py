"""Measures the limiter alone: one client process against one Valkey."""

from pairs import PairFigures
from stand import Effort, Stand, typical
from tables import count, millis, table

ROWS: tuple[tuple[str, int], ...] = (
    ("gathered", 1),
    ("gathered", 32),
    ("gathered", 256),
    ("single", 32),
)
"""Way and admits waiting at once, see pairs.py."""
WAYS = {"gathered": "**Ibex**", "single": "redis-py, a call for each"}
LimiterFigures = dict[tuple[str, int], PairFigures]
EXPLANATION = """\
One client process against one Valkey: 200 agents in 20 organizations, drawn by lot, every limit set
and none reached. A pair is one admit and its settling. "redis-py" calls the same two scripts by
`evalsha`, once for each admit and once for each settling. "In scripts" is the server's own
statistics of script calls, "process" all CPU of its process, append-only file included. Nothing was
admitted open, and every token was found counted once.

"""


def measure(stand: Stand, effort: Effort) -> LimiterFigures:
    """The typical figures of each row."""
    found: dict[tuple[str, int], list[PairFigures]] = {row: [] for row in ROWS}
    for _ in range(effort.rounds):
        for way, waiting in ROWS:
            valkey = stand.valkey
            command = stand.script(
                "pairs", valkey.url, valkey.child.pid, way, waiting, effort.seconds
            )
            found[way, waiting].append(stand.figures(command, PairFigures))
    return {row: typical(rounds) for row, rounds in found.items()}


def text(figures: LimiterFigures) -> str:
    """The section."""
    head = (
        "",
        "waiting",
        "pairs/s",
        "admit p50 ms",
        "admit p99 ms",
        "client CPU us/pair",
        "server us/pair, in scripts",
        "server CPU us/pair, process",
    )
    rows = [
        (
            WAYS[way],
            str(waiting),
            count(it.pairs_per_s),
            millis(it.p50_ms),
            millis(it.p99_ms),
            f"{it.client_us:.1f}",
            f"{it.server_us:.1f}",
            f"{it.server_process_us:.1f}",
        )
        for (way, waiting), it in figures.items()
    ]
    return EXPLANATION + table(head, rows)

"""Measures the limiter alone: one client process against one Valkey."""

from pairs import PairFigures
from stand import Effort, Stand, typical

ROWS: tuple[tuple[str, int], ...] = (
    ("gathered", 1),
    ("gathered", 32),
    ("gathered", 256),
    ("single", 32),
)
"""Way and admits waiting at once, see pairs.py."""


def measure(stand: Stand, effort: Effort) -> dict[tuple[str, int], PairFigures]:
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

"""What a soak has found."""

from collections import Counter
from dataclasses import dataclass, field

from soak_gauges import Counted


@dataclass
class Books:
    """An organization's truth next to what was counted."""

    name: str
    least: int
    most: int
    exact: int
    cut: int
    counted: Counted


@dataclass
class Loss:
    """What a fault has cost that may cost something: tokens missing, and how many may be; open
    reservations that are left, and how many requests were under way.
    """

    name: str
    tokens: int
    allowed: int
    left: int
    under_way: int


@dataclass
class Report:
    """Everything that is told at the end. Times are seconds."""

    seed: int
    seconds: float
    faults: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    operated: dict[str, int] = field(default_factory=dict)
    books: list[Books] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

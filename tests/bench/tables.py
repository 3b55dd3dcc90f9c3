"""Markdown tables, and how numbers look in them."""

import math
from collections.abc import Iterable, Sequence

NOTHING, CANNOT = "-", "cannot"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown: words to the left, numbers to the right."""
    found = [*rows]
    lines = [head, ["---" if n == 0 else "--:" for n in range(len(head))], *found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def count(value: float | None) -> str:
    """A whole number; small ones with a decimal."""
    if value is None:
        return NOTHING
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def micros(value: float | None) -> str:
    """Microseconds."""
    return NOTHING if value is None else f"{value:,.0f}" if value >= 1 else "0"


def millis(value: float | None) -> str:
    """Milliseconds."""
    return NOTHING if value is None else f"{value:,.2f}"


def times(value: float | None, against: float | None) -> str:
    """A ratio; nothing where there is nothing to compare with."""
    if value is None or against is None or against <= 0:
        return NOTHING
    return CANNOT if value == math.inf else f"{value / against:.2f}"

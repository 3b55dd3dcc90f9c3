"""Token figures as they stand in a body: which are believed, and which of several is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

_LARGEST_REPORTED = 10**9


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost. `estimated` is true if any part of `tokens` was not reported."""

    tokens: int
    estimated: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """The figures that an upstream reported, in tokens; None where it reported none."""

    prompt: int | None
    output: int | None


def is_figure(value: Any, largest: int = _LARGEST_REPORTED) -> TypeGuard[int]:
    """Whether a JSON value is a believable count: an integer (no boolean) from 0 to `largest`."""
    return type(value) is int and 0 <= value <= largest


def keep_latest(figures: dict[str, int], usage: Any, fields: Sequence[str]) -> None:
    """Take the believable figures of one `usage` object into `figures`, field by field.

    The latest figure of a field replaces an earlier one, because providers repeat running
    totals; a 0 does not, because some send it where they mean "as said before".
    """
    if not isinstance(usage, dict):
        return
    for field in fields:
        value = usage.get(field)
        if is_figure(value) and (value or field not in figures):
            figures[field] = value

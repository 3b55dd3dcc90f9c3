"""Token figures as they stand in a body: which are believed, and which of several is kept."""

from collections.abc import Sequence
from typing import Any

import msgspec

LARGEST_REPORTED = 10**9


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What an answer cost. `estimated` is true if any part of `tokens` was not reported."""

    tokens: int
    estimated: bool


class Reported(msgspec.Struct, frozen=True, gc=False):
    """The figures that an upstream reported, in tokens; None where it reported none."""

    prompt: int | None
    output: int | None


def figure(value: Any, largest: int = LARGEST_REPORTED) -> int | None:
    """Return a JSON value as a count, if it can be one: a whole number from 0 to `largest`.

    `12.0` is whole, since some serializers know no integers; booleans and strings are no numbers.
    """
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= largest else None


def keep_latest(figures: dict[str, int], usage: Any, fields: Sequence[str]) -> bool:
    """Take the believable figures of one `usage` object into `figures`, field by field.

    The latest figure of a field replaces an earlier one, because providers repeat running
    totals; a 0 does not, because some send it where they mean "as said before". Returns whether
    any was taken.
    """
    if not isinstance(usage, dict):
        return False
    taken = False
    for field in fields:
        value = figure(usage.get(field))
        if value is not None and (value or field not in figures):
            figures[field] = value
            taken = True
    return taken

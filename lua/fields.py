"""How Python reads what series.lua has written: the same fields by the same rules."""

import re

STEP_BACK_S = 60
"""By so much a key may be ahead of the clock and still count: the clock stepped back a little."""
_INTEGER = re.compile(rb"-?[0-9]+")
_LONGEST = 18


def whole(text: bytes | None) -> int:
    """A field that counts. What is no integer counts as nothing."""
    return int(text) if text and len(text) <= _LONGEST and _INTEGER.fullmatch(text) else 0


def milliseconds(time: tuple[int, int]) -> int:
    """The reply of TIME as Unix ms."""
    second, microsecond = time
    return second * 1000 + microsecond // 1000

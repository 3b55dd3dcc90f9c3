"""The trailing 60 seconds of a ring, from the `seconds` that the scripts keep in it."""

import struct

import msgspec

from lua.fields import STEP_BACK_S

_SECONDS = 61
_PACKED = struct.Struct(f">4I{_SECONDS}I")
WIDTH = _PACKED.size
"""Bytes of a packed window (see series.lua): base second, three more figures, 61 counts."""


class Window(msgspec.Struct, frozen=True):
    """Requests in the trailing 60 s. `reset_ms` is when all have left it (0: none is in it)."""

    used: int
    reset_ms: int


EMPTY = Window(0, 0)


def window(packed: bytes | None, now_ms: int) -> Window:
    """Read a packed window. One of another length, or from the future, is empty."""
    if not packed or len(packed) != WIDTH:
        return EMPTY
    base, _, _, _, *counts = _PACKED.unpack(packed)
    now_s = now_ms // 1000
    if base - now_s > STEP_BACK_S:
        return EMPTY
    second = max(base, now_s)
    inside = counts[second - base :]
    if not any(inside):
        return EMPTY
    newest = base - next(age for age, count in enumerate(reversed(counts)) if count)
    return Window(sum(inside), (newest + _SECONDS) * 1000 - now_ms)

"""Noticing that a peer is silent for too long."""

import asyncio
from collections.abc import Callable

_RESOLUTION_S = 0.001


class Silence:
    """Calls back when nothing is heard for as long as was agreed.

    One timer serves many requests: it is not moved with each sign of life, but looks, when it
    goes off, for how long there was none.
    """

    __slots__ = ("_due", "_limit_s", "_loop", "_on_silence", "_timer", "heard")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_silence: Callable[[], None]) -> None:
        self._loop = loop
        self._on_silence = on_silence
        self._limit_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self.heard = 0.0
        """When the peer gave its last sign of life, by the loop's clock; to be kept up to date."""

    def watch(self, limit_s: float | None) -> None:
        """From now on the peer is expected to be heard; None expects nothing of it."""
        self._limit_s = limit_s
        if limit_s is None:
            return
        self.heard = self._loop.time()
        if self._timer is None or self._due > self.heard + limit_s:
            self.stop()
            self._set(self.heard + limit_s)

    def stop(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, due: float) -> None:
        self._due = due
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._limit_s is None:
            return
        due = self.heard + self._limit_s
        if due > self._loop.time() + _RESOLUTION_S:
            self._set(due)
        else:
            self._on_silence()

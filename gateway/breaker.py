"""When Redis is not asked: a breaker that a few failures in a row open and a prober closes.

Traffic never probes. While the breaker is open a request costs nothing extra and is admitted open;
the prober asks a few times a second, so recovery takes well under two seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

FAILURES_TO_OPEN = 5
PROBE_EVERY_S = 0.25

log = structlog.get_logger("ibex.breaker")


class Breaker:
    """The limiter's gate. `probe` says whether Redis answers a write in time."""

    def __init__(self, probe: Callable[[], Awaitable[bool]]) -> None:
        self._probe = probe
        self._failures = 0
        self._prober: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """True: do not ask Redis."""
        return self._prober is not None

    def succeeded(self) -> None:
        """A call was answered in time: failures count in a row only."""
        self._failures = 0

    def failed(self, reason: str) -> None:
        """A call, however many requests it carried, was not answered in time."""
        self._failures += 1
        if self._failures >= FAILURES_TO_OPEN:
            self.open(reason)

    def open(self, reason: str) -> None:
        """Stop asking, until the prober is answered."""
        if not self._prober:
            log.error("limiter open: requests are admitted without a decision", reason=reason)
            self._prober = asyncio.create_task(self._probe_until_answered())

    async def close(self) -> None:
        """Stop probing."""
        if self._prober:
            self._prober.cancel()
            await asyncio.gather(self._prober, return_exceptions=True)

    async def _probe_until_answered(self) -> None:
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            if await self._answers():
                break
        self._failures = 0
        self._prober = None
        log.warning("limiter closed: requests are decided again")

    async def _answers(self) -> bool:
        try:
            return await self._probe()
        except Exception:  # a prober that ends would leave the breaker open for ever
            log.exception("probe failed")
            return False

"""Requests that no script counts, on their way to the charts: denied ones, and those that were
forwarded without a decision. Counted in memory, written in bulk every few seconds.

They are for people to look at; nothing is decided by them. So a batch is written at most once: one
whose answer got lost is not repeated, and what does not fit into memory is not kept. Either way it
is counted as lost.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress

import structlog
from redis.asyncio import Redis

from lua import keys
from lua.decision import Decision, Gate, Subject
from lua.errors import LimiterBrokenError, LimiterError, LimiterUnavailableError
from lua.history import MINUTES
from lua.scripts import RECORD, Argument
from lua.spool import report_healed

WRITE_EVERY_S = 2.0
BATCH = 128
CAPACITY = 60_000
"""An hour of a thousand agents: an outage is told whole, in some 15 MB at worst."""
MINUTE_MS = 60_000

log = structlog.get_logger("ibex.limiter")

_What = tuple[bytes, bytes, int, str]
"""The rings of agent and organization, the minute, and the series of the ring (see series.lua)."""


class Recorder:
    """Counts what one process denied or forwarded without a decision. It does not write while the
    gate is open. `lost` counts what will not be in the charts.
    """

    def __init__(self, client: Redis, gate: Gate) -> None:
        self._client = client
        self._gate = gate
        self._counts: Counter[_What] = Counter()
        self._under_way = 0
        self._closing = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self.lost = 0

    def start(self) -> None:
        """Write from now on."""
        self._writing = asyncio.create_task(self._write_on())

    def denied(self, decision: Decision) -> None:
        """Count a denial, in the minute of the decision. Returns at once."""
        self._count(decision.subject, decision.now_ms // MINUTE_MS, f"denied:{decision.level}")

    def opened(self, decision: Decision) -> None:
        """Count a request that is forwarded without a decision. Returns at once.

        The minute is that of this machine's clock: Redis, whose clock all else goes by, is silent.
        """
        self._count(decision.subject, int(time.time()) // 60, "open")

    async def close(self, timeout_s: float) -> None:
        """Write what is left, as far as time allows, and end."""
        self._closing.set()
        if self._writing is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._writing, timeout_s)
        self.lost += self._counts.total() + self._under_way
        self._counts.clear()
        if self.lost:
            log.warning("requests are missing from the charts", count=self.lost)

    async def write(self) -> None:
        """Write what is counted, in batches, until one fails. What surely was not written stays."""
        while self._counts and not self._gate.is_open:
            batch = [self._counts.popitem() for _ in range(min(BATCH, len(self._counts)))]
            self._under_way = sum(count for _, count in batch)
            try:
                report_healed(await RECORD.run(self._client, *_arguments(batch)))
            except LimiterError as error:
                self._failed(batch, error)
                return
            self._under_way = 0

    def _count(self, subject: Subject, minute: int, series: str) -> None:
        what = (subject.agent_key, subject.org_keys[0], minute, series)
        if len(self._counts) < CAPACITY or what in self._counts:
            self._counts[what] += 1
        else:
            self.lost += 1

    async def _write_on(self) -> None:
        while not self._closing.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), WRITE_EVERY_S)
            await self.write()
            if len(self._counts) >= CAPACITY:
                self._forget()

    def _forget(self) -> None:
        """Make room in a long outage: minutes that no chart will show any more."""
        oldest = int(time.time()) // 60 - MINUTES
        for what in [what for what in self._counts if what[2] < oldest]:
            del self._counts[what]

    def _failed(self, batch: list[tuple[_What, int]], error: LimiterError) -> None:
        if isinstance(error, LimiterBrokenError):
            log.error("recording requests for the charts failed", error=str(error))
        if isinstance(error, LimiterUnavailableError) and not error.may_have_run:
            self._counts.update(dict(batch))
        else:
            self.lost += self._under_way
        self._under_way = 0


def _arguments(batch: list[tuple[_What, int]]) -> tuple[list[Argument], list[Argument]]:
    """They count in the rings of agent, organization and platform, as any request does."""
    sums: Counter[tuple[bytes, str, int]] = Counter()
    for (agent, org, minute, series), count in batch:
        for ring in (agent, org, keys.GLOBAL_RING.encode()):
            sums[ring, series, minute] += count
    index = {ring: place for place, ring in enumerate(dict.fromkeys(key[0] for key in sums), 1)}
    args: list[Argument] = [-1]
    for (ring, series, minute), count in sums.items():
        args += (index[ring], series, minute, count)
    return list(index), args

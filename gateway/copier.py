"""Copies the limiter's counters into the durable ledger, and raises what Redis has lost of them.

Every worker copies what its own traffic has touched, a few seconds later, and now and then
everything: what another worker touched that is gone. The ledger only ever raises, so it does not
matter who copies, how often, or how late. Nothing of it is on the way of a request.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from db.errors import DatabaseError
from db.ledger import Ledger, UsageMinute
from gateway.config import Config
from lua.copying import AT_ONCE, Counters
from lua.decision import Subject
from lua.errors import LimiterError
from lua.history import MINUTES, Minute
from lua.limiter import LuaLimiter
from lua.months import month_of

EVERY_S = 4.0
SWEEP_EVERY_S = 600.0
"""Rings hold an hour: what one sweep misses, the next five still find."""
PRUNE_EVERY_S = 3600.0
LAST_MINUTES = 2
"""The running one, and the one that ended since."""

log = structlog.get_logger("ibex.ledger")


class Copier:
    """The copying of one worker. `lag_s` says how old the newest whole copy is."""

    def __init__(
        self, counters: Counters, ledger: Ledger, limiter: LuaLimiter, config: Config
    ) -> None:
        self._counters = counters
        self._ledger = ledger
        self._limiter = limiter
        self._config = config
        self._learned: tuple[str, datetime | None] = ("", None)
        self._copied = time.monotonic()
        self._swept = self._pruned = float("-inf")
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_behind = False
        self.is_postgres_failing = False

    @property
    def lag_s(self) -> float:
        """Seconds since everything was copied that had been counted by then."""
        return time.monotonic() - self._copied

    async def start(self) -> None:
        """Learn what was used this month, then copy from now on. Raises DatabaseError."""
        await self._learn()
        self._task = asyncio.create_task(self._copy_on())

    async def close(self, timeout_s: float) -> None:
        """Copy what is left, as far as time allows, and end."""
        self._closing.set()
        if self._task:
            done, _ = await asyncio.wait({self._task}, timeout=timeout_s)
            if not done:  # not waited for: the driver lets go when it pleases
                self._task.cancel()
                log.warning("the ledger is behind", reason="not copied whole at the end")

    async def copy(self) -> None:
        """Copy what was touched; where that fails it is said once, and stays to be copied."""
        began = time.monotonic()
        subjects = self._limiter.active.take()
        try:
            await self._copy(subjects, self._minutes_since_the_last())
            await self._learn()
            month = self._limiter.month
            await self._counters.raise_months(month.name, month.all())
        except (LimiterError, DatabaseError) as error:
            self._limiter.active.put_back(subjects)
            self.is_postgres_failing = isinstance(error, DatabaseError)
            if not self.is_behind:
                self.is_behind = True
                log.warning("the ledger is behind", reason=str(error))
        else:
            self._copied = began
            self.is_postgres_failing = False
            if self.is_behind:
                self.is_behind = False
                log.warning("the ledger is complete again")

    async def sweep(self) -> None:
        """Copy the last hour of everybody."""
        callers = self._config.snapshot.callers.values()
        subjects = list({caller.subject.agent_key: caller.subject for caller in callers}.values())
        for at in range(0, len(subjects), AT_ONCE):
            await self._copy(subjects[at : at + AT_ONCE], MINUTES)

    async def _copy_on(self) -> None:
        while not self._closing.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), EVERY_S)
            await self.copy()
            if not self.is_behind and not self._closing.is_set():
                await self._now_and_then()

    async def _now_and_then(self) -> None:
        now = time.monotonic()
        try:
            if now - self._swept > SWEEP_EVERY_S:
                await self.sweep()
                self._swept = now
            if now - self._pruned > PRUNE_EVERY_S:
                await self._ledger.prune()
                self._pruned = now
        except (LimiterError, DatabaseError) as error:
            log.warning("sweeping or pruning the ledger has to be tried again", reason=str(error))

    async def _copy(self, subjects: Sequence[Subject], count: int) -> None:
        now_ms = int(time.time() * 1000)
        org_ids = {subject.org_id for subject in subjects}
        found = await self._counters.minutes(subjects, count)
        names = sorted({month_of(now_ms), month_of(now_ms - 24 * 3600 * 1000)})
        months = await self._counters.months(org_ids, names)
        await self._ledger.write_minutes(
            [
                _row(org_id, agent_id or org_id, minute)
                for (org_id, agent_id), hour in found.items()
                for minute in hour
            ]
        )
        await self._ledger.write_months(months)

    async def _learn(self) -> None:
        """What others have counted this month, so that a counter that was lost is known here."""
        name = month_of(int(time.time() * 1000))
        learned, since = self._learned
        tokens, until = await self._ledger.months(name, since if name == learned else None)
        self._learned = (name, until)
        self._limiter.month.learn(name, tokens)

    def _minutes_since_the_last(self) -> int:
        return min(MINUTES, LAST_MINUTES + int(self.lag_s // 60))


def _row(org_id: str, agent_id: str, minute: Minute) -> UsageMinute:
    return UsageMinute(
        org_id,
        agent_id,
        datetime.fromtimestamp(minute.minute * 60, UTC),
        minute.requests,
        sum(minute.denied.values()),
        minute.open,
        minute.tokens,
        minute.estimated,
    )

"""The limiter: many concurrent admits, one script call.

A call goes out at once when none is under way; what arrives meanwhile is gathered and goes out
when the answer is there. No timer, no waiting for company. A caller waits at most the deadline
and is then admitted open; the call itself goes on, and its verdict is adopted for settling.

When Redis gives no answer the request is admitted open, and counted: this limiter controls cost,
it is not a security boundary.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from itertools import count

import structlog
from redis.asyncio import Redis

from lua.active import Active
from lua.batch import Keys
from lua.decision import LEVELS, Decision, Gate, Reservation, Subject
from lua.errors import LimiterError, LimiterUnavailableError
from lua.months import KnownMonth
from lua.scripts import ADMIT, COMMIT, Argument
from lua.spool import Spool, report_healed, report_raised

BATCH = 128
FAIR_SHARE = 0.75
STALL_S = 0.01
_HEAD, _WIDTH = 3, 13

log = structlog.get_logger("ibex.limiter")


class _Call:
    """One admit: what it asks, since when (loop time), and who waits for it."""

    __slots__ = ("answer", "extra", "needed", "reservation", "since")

    def __init__(self, reservation: Reservation, needed: int, extra: int) -> None:
        loop = asyncio.get_running_loop()
        self.reservation = reservation
        self.needed = needed
        self.extra = extra
        self.since = loop.time()
        self.answer: asyncio.Future[Decision] = loop.create_future()

    def open(self) -> Decision:
        return Decision(self.reservation.subject, self.reservation, admitted=True, is_open=True)


class _Batch:
    """The calls of one script call, when it went out (loop time), and whether it is given up."""

    __slots__ = ("calls", "is_late", "sent", "timer", "was_stalled")

    timer: asyncio.TimerHandle

    def __init__(self, calls: list[_Call]) -> None:
        self.calls = calls
        self.sent = asyncio.get_running_loop().time()
        self.is_late = False
        self.was_stalled = False


class LuaLimiter:
    """The Limiter on Redis. `clock_ms` overrides Redis TIME where it is not negative (tests)."""

    def __init__(
        self,
        client: Redis,
        gate: Gate,
        *,
        deadline_s: float,
        lease_s: int,
        clock_ms: Callable[[], int] = lambda: -1,
    ) -> None:
        self._client = client
        self._gate = gate
        self._deadline_s = deadline_s
        self._lease_ms = lease_s * 1000
        self._clock_ms = clock_ms
        self._waiting: deque[_Call] = deque()
        self._current: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self.month = KnownMonth()
        self.active = Active()
        self._ids = map((secrets.token_hex(8) + "{:x}").format, count())
        self.spool = Spool(client, gate, self.month, self.active, clock_ms)
        self.admitted_open = 0
        self.tokens_estimated = 0
        self._broken = 0

    @property
    def broken(self) -> int:
        """Script errors, and keys that were not the limiter's own and had to be replaced."""
        return self._broken + self.spool.healed

    async def load(self) -> None:
        """Put both scripts into the server's cache. Raises LimiterUnavailableError."""
        await ADMIT.load(self._client)
        await COMMIT.load(self._client)

    async def admit(self, subject: Subject, needed: int, extra: int) -> Decision:
        """Decide one request. A cancelled caller disturbs nobody: what it was granted is released.

        Tokens `needed` are what it will use at most, or of the prompt alone; `extra` are held on
        top as far as there is room.
        """
        call = _Call(Reservation(subject, next(self._ids)), needed, extra)
        if self._gate.is_open:
            self.admitted_open += 1
            self.active.mark(subject)
            return call.open()
        self._waiting.append(call)
        if not self._current:
            self._send()
        try:
            return await call.answer
        except asyncio.CancelledError:
            if call.answer.done() and not call.answer.cancelled():
                self._release(call.answer.result())
            raise

    def settle(self, reservation: Reservation, tokens: int, *, is_estimate: bool = False) -> None:
        """Queue the reservation's settling. A second call for the same one does nothing."""
        if not reservation.settled:
            reservation.settled = True
            self.tokens_estimated += tokens * is_estimate
            self.spool.add(reservation, tokens, is_estimate=is_estimate)

    async def close(self, timeout_s: float) -> None:
        """Settle what waits, as far as time allows, and end."""
        await asyncio.gather(*self._calls, return_exceptions=True)
        if not await self.spool.drain(timeout_s):
            log.error("settlements lost at shutdown", count=len(self.spool))

    def _send(self) -> None:
        self._current = asyncio.create_task(self._run())
        self._calls.add(self._current)
        self._current.add_done_callback(self._calls.discard)

    async def _run(self) -> None:
        """Send what waits, when the loop has turned once more and everybody of this turn is in."""
        await asyncio.sleep(0)
        batch = _Batch(self._take())
        if not batch.calls:
            self._next(batch)
            return
        self._arm(batch, batch.calls[0].since + self._deadline_s)
        keys, args = self._arguments(batch.calls)
        try:
            reply = await ADMIT.run(self._client, keys, args)
        except LimiterError as error:
            self._failed(error, batch)
        else:
            if not batch.is_late:
                self._gate.succeeded()
            self._answer(batch.calls, reply)
        finally:
            batch.timer.cancel()
            self._give_up(batch.calls)
            self._next(batch)

    def _take(self) -> list[_Call]:
        """The next batch, without those whose caller has gone."""
        batch: list[_Call] = []
        while self._waiting and len(batch) < BATCH:
            call = self._waiting.popleft()
            if not call.answer.done():
                batch.append(call)
        return batch

    def _next(self, batch: _Batch) -> None:
        """Let the next call go out, unless it has, since this one was given up."""
        if not batch.is_late:
            self._current = None
            if self._waiting:
                self._send()

    def _arm(self, batch: _Batch, due: float) -> None:
        batch.timer = asyncio.get_running_loop().call_at(due, self._expire, batch, due)

    def _expire(self, batch: _Batch, due: float) -> None:
        """The deadline is over: nobody waits for this call any longer, the next may go out.

        Where this process itself was too busy to be in time, the answer may be here, unread: that
        is looked for first, once. A call that went out late, behind a slow one, had no fair
        chance: it is no second failure.
        """
        now = asyncio.get_running_loop().time()
        if now - due > STALL_S and not batch.was_stalled:
            batch.was_stalled = True
            self._arm(batch, now + STALL_S / 2)
            return
        if now - batch.sent > self._deadline_s * FAIR_SHARE:
            self._gate.failed(f"no answer within {self._deadline_s * 1000:.0f} ms")
        self._give_up(batch.calls)
        self._next(batch)
        batch.is_late = True

    def _failed(self, error: LimiterError, batch: _Batch) -> None:
        if isinstance(error, LimiterUnavailableError):
            if not batch.is_late:
                self._gate.failed(str(error))
            if error.may_have_run:
                for call in batch.calls:
                    self.spool.release_lost(call.reservation)
        else:
            self._broken += 1
            log.error("limiter broken", error=str(error))

    def _give_up(self, batch: list[_Call]) -> None:
        for call in batch:
            if not call.answer.done():
                self.admitted_open += 1
                self.active.mark(call.reservation.subject)
                call.answer.set_result(call.open())

    def _arguments(self, batch: list[_Call]) -> tuple[list[Argument], list[Argument]]:
        keys = Keys()
        known = self.month
        args: list[Argument] = [self._clock_ms(), self._lease_ms, known.name]
        for call in batch:
            subject = call.reservation.subject
            args += (
                *keys.of(subject),
                *subject.limit_args,
                call.needed,
                call.extra,
                call.reservation.id,
                known.of(subject.org_id),
            )
        return keys.all, args

    def _answer(self, batch: list[_Call], reply: list[int]) -> None:
        now_ms = reply[0]
        self._broken += report_healed(reply)
        report_raised(reply)
        at = _HEAD
        for call in batch:
            decision = _decision(call.reservation, now_ms, reply[at : at + _WIDTH])
            at += _WIDTH
            self.month.note(now_ms, decision.subject.org_id, decision.tokens_used)
            self.active.mark(decision.subject)
            if not call.answer.done():
                call.answer.set_result(decision)
            elif decision.admitted and call.reservation.settled:
                self.spool.add(call.reservation, 0)  # it was settled without what it holds now
            elif call.answer.cancelled():
                self._release(decision)

    def _release(self, decision: Decision) -> None:
        """Nobody is left to forward this request: give back what it holds."""
        if decision.admitted:
            self.settle(decision.reservation, 0)


def _decision(reservation: Reservation, now_ms: int, reply: list[int]) -> Decision:
    admitted, level, agent, org, platform, used, held, own, retry, *times = reply
    if admitted:
        reservation.admit(now_ms, own)
    return Decision(
        reservation.subject,
        reservation,
        bool(admitted),
        False,  # noqa: FBT003  # positional: this is built for every request
        now_ms,
        LEVELS[level],
        agent,
        org,
        platform,
        used,
        held,
        None if retry < 0 else retry,
        *times,
    )

"""Settlements on their way to Redis: kept in order until they are counted, each exactly once."""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog
from redis.asyncio import Redis

from lua.active import Active
from lua.batch import Keys
from lua.decision import Gate, Reservation, Subject
from lua.errors import LimiterUnavailableError
from lua.months import KnownMonth
from lua.scripts import COMMIT, Argument

GATHER_S = 0.01
RETRY_S = 0.25
BATCH = 128
CAPACITY = 100_000
_HEAD = 3

log = structlog.get_logger("ibex.limiter")


class Settlement:
    """What a reservation really used. It keeps the member by which it is first sent: a verdict that
    comes later must not make a repetition look like another settlement.
    """

    __slots__ = ("is_estimate", "is_retry", "member", "subject", "tokens")

    def __init__(self, subject: Subject, member: str, tokens: int, *, is_estimate: bool) -> None:
        self.subject = subject
        self.member = member
        self.tokens = tokens
        self.is_estimate = is_estimate
        self.is_retry = False


class Spool:
    """A bounded queue of settlements, written in batches, one batch at a time.

    A batch whose answer got lost is sent again, marked as a repetition, so that the script can
    tell. A settlement that the script itself refuses is sent alone, then given up and counted.
    """

    def __init__(
        self,
        client: Redis,
        gate: Gate,
        month: KnownMonth,
        active: Active,
        clock_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._gate = gate
        self._month = month
        self._active = active
        self._clock_ms = clock_ms
        self._waiting: deque[Settlement] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._under_way = 0
        self._one_by_one = 0
        self._pause_s = 0.0
        self.lost = 0
        self.healed = 0

    def __len__(self) -> int:
        """How many are not counted yet, those under way included."""
        return len(self._waiting) + self._under_way

    def add(self, reservation: Reservation, tokens: int, *, is_estimate: bool = False) -> None:
        """Queue it; a full spool gives up this one and counts it as lost."""
        self._add(
            Settlement(reservation.subject, reservation.member, tokens, is_estimate=is_estimate)
        )

    def release_lost(self, reservation: Reservation) -> None:
        """Queue the release of what it may hold: nobody knows, the admission's answer got lost."""
        self._add(Settlement(reservation.subject, reservation.lost_member, 0, is_estimate=False))

    def _add(self, settlement: Settlement) -> None:
        if len(self._waiting) >= CAPACITY:
            self.lost += 1
            return
        self._waiting.append(settlement)
        if len(self._waiting) >= BATCH:
            self.write()
        else:
            self._write_in(GATHER_S)

    def write(self) -> None:
        """Start writing now, unless a batch is under way or Redis is not to be asked."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if not self._waiting or self._writing:
            return
        if self._gate.is_open:
            self._write_in(RETRY_S)
        else:
            self._writing = asyncio.create_task(self._write())
            self._writing.add_done_callback(self._written)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is counted; False if time ran out first."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self._waiting or self._writing:
            if asyncio.get_running_loop().time() > deadline:
                return False
            self.write()
            await asyncio.sleep(GATHER_S / 2)
        return True

    def _write_in(self, delay_s: float) -> None:
        if not self._timer and not self._writing:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.write)

    def _written(self, _task: asyncio.Task[None]) -> None:
        self._writing = None
        if self._pause_s or self._one_by_one:
            self._write_in(self._pause_s)
        elif len(self._waiting) >= BATCH:
            self.write()
        elif self._waiting:
            self._write_in(GATHER_S)

    async def _write(self) -> None:
        size = 1 if self._one_by_one else BATCH
        self._pause_s = 0.0
        batch = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
        self._under_way = len(batch)
        try:
            reply = await COMMIT.run(self._client, *self._arguments(batch))
        except LimiterUnavailableError as error:
            self._gate.failed(str(error))
            self._put_back(batch, may_have_run=error.may_have_run)
        except Exception as error:  # noqa: BLE001  # whatever it is, nothing is lost unseen
            self._refused(batch, error)
        else:
            self._one_by_one = max(0, self._one_by_one - 1)
            self._counted(batch, reply)
        finally:
            self._under_way = 0

    def _arguments(self, batch: list[Settlement]) -> tuple[list[Argument], list[Argument]]:
        keys = Keys()
        args: list[Argument] = [self._clock_ms(), self._month.name]
        for settlement in batch:
            args += (
                *keys.of(settlement.subject),
                settlement.member,
                settlement.tokens,
                int(settlement.is_estimate),
                int(settlement.is_retry),
                self._month.of(settlement.subject.org_id),
            )
        return keys.all, args

    def _counted(self, batch: list[Settlement], reply: list[int]) -> None:
        self.healed += report_healed(reply)
        report_raised(reply)
        for settlement, used in zip(batch, reply[_HEAD + 1 :: 2], strict=True):
            self._month.note(reply[0], settlement.subject.org_id, used)
            self._active.mark(settlement.subject)

    def _put_back(self, batch: list[Settlement], *, may_have_run: bool) -> None:
        self._pause_s = RETRY_S
        for settlement in reversed(batch):
            settlement.is_retry = settlement.is_retry or may_have_run
            self._waiting.appendleft(settlement)

    def _refused(self, batch: list[Settlement], error: Exception) -> None:
        if len(batch) > 1:
            self._one_by_one = len(batch)
            self._put_back(batch, may_have_run=True)
            return
        self._one_by_one = max(0, self._one_by_one - 1)
        self.lost += 1
        log.error(
            "settlement refused",
            org_id=batch[0].subject.org_id,
            tokens=batch[0].tokens,
            error=str(error),
        )


def report_healed(reply: list[int]) -> int:
    """How many keys the script had to replace. Nobody but Ibex should write them: it is logged."""
    healed = reply[1]
    if healed:
        log.error("keys that were not the limiter's own were replaced", count=healed)
    return healed


def report_raised(reply: list[int]) -> None:
    """Say that months were lower than is known: Redis has lost data, or is an older copy."""
    raised = reply[2]
    if raised:
        log.error("months that counted less than is known were raised", count=raised)

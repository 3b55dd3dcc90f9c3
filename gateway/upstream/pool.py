"""Connections to one origin: kept alive, bounded in number, shared in the order of asking."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import NamedTuple

import httpx

from gateway.upstream.connection import Connection


class PoolLimits(NamedTuple):
    """How many connections to one origin there are at most, and how long one is kept unused.

    `idle_s` is below the 60 s after which common load balancers close.
    """

    connections: int = 10_000
    idle: int = 1_024
    idle_s: float = 50.0


Connect = Callable[["Pool", float | None], Awaitable[Connection]]
"""Opens a connection for a pool, within so many seconds."""


class Pool:
    """The connections to one origin. `open` counts those that are being opened, too.

    The one used last is used next: the others grow old and are closed.
    """

    def __init__(self, connect: Connect, limits: PoolLimits) -> None:
        self._connect = connect
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._connections: set[Connection] = set()
        self._idle: dict[Connection, float] = {}
        self._waiting: OrderedDict[asyncio.Future[Connection | None], None] = OrderedDict()
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.opened = 0
        self.open = 0

    @property
    def idle(self) -> int:
        """How many connections wait for their next use."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """How many requests wait for a connection."""
        return len(self._waiting)

    def take(self) -> Connection | None:
        """A connection that can be used at once; None where there is none."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_usable():
                return connection
            connection.close()
        return None

    async def acquire(self, connect_s: float | None, wait_s: float | None) -> Connection:
        """Open a connection, or wait for one if there are too many.

        Raises httpx.PoolTimeout, and what opening raises.
        """
        while self.open >= self._limits.connections:
            try:
                async with asyncio.timeout(wait_s):
                    handed = await self._turn()
            except TimeoutError as error:
                raise httpx.PoolTimeout("No connection became free in time.") from error
            if handed is None:  # one was closed: its place is ours
                return await self._opened(connect_s)
            if handed.is_usable():
                return handed
            handed.close()
        self.open += 1
        return await self._opened(connect_s)

    def release(self, connection: Connection) -> None:
        """To whoever has waited longest, else to be kept."""
        if waiter := self._first_waiting():
            waiter.set_result(connection)
        elif self._is_closed or len(self._idle) >= self._limits.idle:
            connection.close()
        else:
            self._idle[connection] = self._loop.time() + self._limits.idle_s
            if self._sweeper is None:
                self._sweep_after(self._limits.idle_s)

    def lost(self, connection: Connection) -> None:
        """Told by each connection that is closed; one that never got into use has no place."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._idle.pop(connection, None)
            self._leave_place()

    def close(self) -> None:
        """End every connection, whatever it does, and every wait."""
        self._is_closed = True
        while waiter := self._first_waiting():
            waiter.set_exception(httpx.ConnectError("The gateway is stopping."))
        for connection in tuple(self._connections):
            connection.close(httpx.ReadError("The gateway is stopping."))
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def _opened(self, connect_s: float | None) -> Connection:
        try:
            connection = await self._connect(self, connect_s)
        except BaseException:
            self._leave_place()
            raise
        if self._is_closed or connection.is_closed:
            connection.close()
            self._leave_place()
            raise httpx.ConnectError("The connection was closed at once.")
        self.opened += 1
        self._connections.add(connection)
        return connection

    async def _turn(self) -> Connection | None:
        waiter: asyncio.Future[Connection | None] = self._loop.create_future()
        self._waiting[waiter] = None
        try:
            return await waiter
        except asyncio.CancelledError:
            self._waiting.pop(waiter, None)
            if waiter.cancelled():
                pass
            elif handed := waiter.result():  # given just before: to the next one, then
                self.release(handed)
            else:
                self._leave_place()
            raise

    def _leave_place(self) -> None:
        if waiter := self._first_waiting():
            waiter.set_result(None)
        else:
            self.open -= 1

    def _first_waiting(self) -> asyncio.Future[Connection | None] | None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():  # it may have been cancelled, and not know yet
                return waiter
        return None

    def _sweep_after(self, seconds: float) -> None:
        self._sweeper = self._loop.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        for connection, _ in tuple(takewhile(lambda kept: kept[1] <= now, self._idle.items())):
            connection.close()
        if self._idle:
            self._sweep_after(max(0.0, next(iter(self._idle.values())) - now))

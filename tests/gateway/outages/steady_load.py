"""Agents that ask without an end, over connections that they keep, and note what they see."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from gateway_stack import Agent
from raw_calls import CHAT, chat, fields
from raw_client import request

HOST = "127.0.0.1"
PATIENCE_S = 30
PAUSE_S = 0.09
CLIENTS = 8
"""With the pause between an answer and the next request this is about 80 requests/s."""

IS_OPEN = b"\r\nibex-limiter: open"
IS_LAST = b"\r\nconnection: close"

Ports = Callable[[], int]


@dataclass(frozen=True)
class Seen:
    """One request: when its answer was there (monotonic), after how long, and what it was.

    A status of 0 is no answer.
    """

    at: float
    seconds: float
    status: int
    is_open: bool = False

    @property
    def is_decided(self) -> bool:
        return self.status == HTTPStatus.OK and not self.is_open


@dataclass
class SteadyLoad:
    """Clients in turn of these agents. `port` is asked for each new connection.

    `repeats`: a request whose kept connection ends without a byte of an answer is sent again on a
    new one, as routers and SDKs do; its time runs on.
    """

    port: Ports
    agents: Sequence[Agent]
    repeats: bool = False
    seen: list[Seen] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _ending: bool = False

    async def run(self) -> None:
        """Until `end`; what is under way then is finished and seen, too."""
        agents = [self.agents[number % len(self.agents)] for number in range(CLIENTS)]
        await asyncio.gather(*(self._client(agent) for agent in agents))

    def end(self) -> None:
        """Let everybody finish."""
        self._ending = True

    async def _client(self, agent: Agent) -> None:
        message = request("POST", CHAT, fields(agent), chat(max_tokens=50))
        connection: _Connection | None = None
        while not self._ending:
            before = time.monotonic()
            connection, status, head = await self._ask(connection, message)
            now = time.monotonic()
            self.seen.append(Seen(now, now - before, status, IS_OPEN in head))
            if connection and (not status or IS_LAST in head):
                connection.close()
                connection = None
            await asyncio.sleep(PAUSE_S)
        if connection:
            connection.close()

    async def _ask(
        self, connection: "_Connection | None", message: bytes
    ) -> tuple["_Connection | None", int, bytes]:
        """The connection that it was asked on at last, status and head of the answer."""
        is_kept = connection is not None
        try:
            connection = connection or await _Connection.open(self.port())
            return connection, *await asyncio.wait_for(connection.ask(message), PATIENCE_S)
        except (OSError, EOFError, TimeoutError) as error:
            is_unanswered = not getattr(error, "partial", b"")
            if self.repeats and is_kept and connection and is_unanswered:
                connection.close()
                return await self._ask(None, message)
            self.errors.append(repr(error))
            return connection, 0, b""


@dataclass(frozen=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, port: int) -> "_Connection":
        return cls(*await asyncio.open_connection(HOST, port))

    async def ask(self, message: bytes) -> tuple[int, bytes]:
        """Status and head (in lower case) of the answer, which is read to its end."""
        self.writer.write(message)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        lines = head.split(b"\r\n")
        length = next((line for line in lines if line.startswith(b"content-length:")), b":0")
        await self.reader.readexactly(int(length.partition(b":")[2]))
        return int(head.split(b" ", 2)[1]), head

    def close(self) -> None:
        with suppress(OSError):
            self.writer.close()


def p99_ms(seen: Sequence[Seen]) -> float:
    """The slowest but one in a hundred; NaN where nobody asked."""
    if not seen:
        return math.nan
    waits = sorted(one.seconds for one in seen)
    return waits[min(len(waits) - 1, math.ceil(len(waits) * 0.99) - 1)] * 1000

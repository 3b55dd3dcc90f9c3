"""An answer while it comes in: its head, and its body as a stream."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import httpx

from gateway.upstream.headers import RawHeaders

_MOST_WAITING_BYTES = 65_536


class Source(Protocol):
    """Where an answer comes from."""

    def hold_back(self) -> None:
        """Let nothing more come in for now."""

    def go_on(self) -> None:
        """Let it come in again."""

    def close(self) -> None:
        """Nobody wants the rest."""


class Answer(httpx.AsyncByteStream):
    """Filled by a connection, read by one reader. Iterating gives what has come, as it comes.

    A failure is raised after all that came before it. When the reader is slow, the source is held
    back.
    """

    __slots__ = (
        "_loop", "_pieces", "_source", "_waiter", "_waiting_bytes", "ended", "error", "headers",
        "is_held_back", "status",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, source: Source) -> None:
        self._loop = loop
        self._source = source
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0
        self.headers: RawHeaders = []
        self.ended = False
        self.error: Exception | None = None
        self.is_held_back = False

    async def head(self) -> None:
        """Return when `status` and `headers` are there; raise what went wrong before."""
        while not self.status:
            if self.error is not None:
                raise self.error
            await self._wait()

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The body, once."""
        return self

    async def __anext__(self) -> bytes:
        """All that has come since the last time."""
        while not self._pieces:
            if self.error is not None:
                raise self.error
            if self.ended:
                raise StopAsyncIteration
            await self._wait()
        pieces = self._pieces
        self._pieces = []
        self._waiting_bytes = 0
        if self.is_held_back:
            self.is_held_back = False
            self._source.go_on()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def aclose(self) -> None:
        """An answer that is not read to its end costs its connection."""
        if not self.ended:
            self._source.close()

    def add(self, piece: bytes) -> None:
        """A piece of the body has come; `news` is to be told afterwards."""
        self._pieces.append(piece)
        self._waiting_bytes += len(piece)

    def news(self) -> None:
        """Something has changed: wake the reader, hold the source back if there is too much."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._waiting_bytes > _MOST_WAITING_BYTES and not (self.is_held_back or self.ended):
            self.is_held_back = True
            self._source.hold_back()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

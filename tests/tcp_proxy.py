"""A TCP proxy between a test and a server, that can make the network bad."""

import asyncio
from contextlib import suppress
from enum import Enum, auto
from typing import Self

HOST = "127.0.0.1"
CHUNK = 65_536


class _Replies(Enum):
    PASS = auto()
    VANISH = auto()
    BREAK = auto()
    HALVE = auto()


class TcpProxy:
    """`async with TcpProxy(target_port) as proxy:` listens on `proxy.port` and passes bytes on.

    What goes to the server always arrives; the methods treat what comes back, from the moment that
    they are called until heal(). A connection that lost a reply stays lost: it never goes on with
    the next one, as no network does.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._delay_s = 0.0
        self._replies = _Replies.PASS
        self._is_cut = False
        self._silent: set[int] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    async def listen(self) -> None:
        """Take connections, after refuse() on the same port."""
        self._server = await asyncio.start_server(self._accepted, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """End every connection, and let the kernel refuse new ones."""
        assert self._server is not None
        self._server.close()
        self._end_connections()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    def delay_replies(self, seconds: float) -> None:
        """Every reply comes so much later, in its order."""
        self._delay_s = seconds

    def cut(self) -> None:
        """Break every connection, and each new one."""
        self._is_cut = True
        self._end_connections()

    def cut_replies(self) -> None:
        """Break a connection in place of its next reply: the server did what it was asked."""
        self._replies = _Replies.BREAK

    def cut_inside_replies(self) -> None:
        """Deliver one half of the next reply of a connection, then break it, and each new one."""
        self._replies = _Replies.HALVE

    def lead_to(self, target_port: int) -> None:
        """New connections reach another server; those that stand go on with the old one."""
        self._target_port = target_port

    def silence(self, port: int) -> None:
        """Replies vanish on one connection: that which reaches the server from this port."""
        self._silent.add(port)

    def black_hole(self) -> None:
        """Replies vanish, and the connections stay open."""
        self._replies = _Replies.VANISH

    def heal(self) -> None:
        """From now on the network is good."""
        self._delay_s = 0.0
        self._replies = _Replies.PASS
        self._is_cut = False
        self._silent.clear()

    def _end_connections(self) -> None:
        for connection in self._connections:
            connection.cancel()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._is_cut:
                return
            with suppress(OSError):
                answers, requests = await asyncio.open_connection(HOST, self._target_port)
                try:
                    await self._exchange((reader, requests), (answers, writer))
                finally:
                    requests.transport.abort()
        finally:
            writer.transport.abort()

    async def _exchange(
        self,
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        back: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Until one side ends."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        parts = [
            asyncio.create_task(self._requests(*there)),
            asyncio.create_task(self._collect(back, there[1].get_extra_info("sockname")[1], due)),
            asyncio.create_task(self._deliver(due, back[1])),
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    @staticmethod
    async def _requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()

    async def _collect(
        self,
        back: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        port: int,
        due: asyncio.Queue[tuple[float, bytes]],
    ) -> None:
        reader, writer = back
        loop = asyncio.get_running_loop()
        is_lost = False
        while data := await reader.read(CHUNK):
            if self._replies is _Replies.BREAK:
                return
            if self._replies is _Replies.HALVE:
                writer.write(data[: len(data) // 2])
                await writer.drain()
                return
            is_lost = is_lost or self._replies is _Replies.VANISH or port in self._silent
            if not is_lost:
                due.put_nowait((loop.time() + self._delay_s, data))

    @staticmethod
    async def _deliver(
        due: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            when, data = await due.get()
            await asyncio.sleep(when - loop.time())
            writer.write(data)
            await writer.drain()

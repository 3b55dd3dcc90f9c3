"""The load generator tells the truth about servers that stall."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from open_loop import WARM_UP_S, Plan, Run

REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
DENIED = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def server(answer: Callable[[], Awaitable[bytes]]) -> AsyncIterator[int]:
    """The port of a server that answers so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(await answer())
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def test_a_stall_counts_for_every_request_that_was_due_meanwhile() -> None:
    """A server that hangs for the whole run is charged half of it in the median, not once."""
    seconds = 0.6
    loop = asyncio.get_running_loop()
    began: list[float] = []

    async def stall() -> bytes:
        began.append(loop.time())
        if (since := began[-1] - began[0]) >= WARM_UP_S:
            await asyncio.sleep(WARM_UP_S + seconds - since)
        return OK

    async with server(stall) as port:
        figures = await asyncio.to_thread(Run(Plan(port, [REQUEST], 100, seconds)).run)

    assert figures.p50_ms > seconds / 3 * 1000
    assert figures.p99_ms > seconds * 0.9 * 1000


async def test_a_denial_ends_the_run() -> None:
    """Figures are of answers, not of refusals."""

    async def deny() -> bytes:
        return DENIED

    async with server(deny) as port:
        with pytest.raises(RuntimeError, match="429"):
            await asyncio.to_thread(Run(Plan(port, [REQUEST], 100, 0.1)).run)

"""A thousand of everything that can end an exchange: no socket stays, and nobody waits."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from asking import TLS, Ask, body_of
from raw_upstream import Peer, RawUpstream
from waiting import comes_true

from gateway.upstream.lean import LeanTransport
from gateway.upstream.pool import PoolLimits

ENOUGH = 1_000
AT_ONCE = 50


@pytest.fixture
async def roomy() -> AsyncIterator[LeanTransport]:
    """Room for twenty connections; fifty requests are under way."""
    async with LeanTransport(TLS, PoolLimits(connections=20, idle=5)) as made:
        yield made


async def many(one: Callable[[], Awaitable[object]]) -> None:
    """A thousand, fifty at a time."""

    async def some() -> None:
        for _ in range(ENOUGH // AT_ONCE):
            await one()

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def cancelled_after(ask: Ask, turns: int) -> None:
    """A request that is cancelled after so many turns of the loop, if it is not over then."""
    task = asyncio.create_task(ask.whole("POST", body=b"x"))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def sockets() -> int:
    """Open sockets of this process."""
    gc.collect()
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(descriptor.readlink()))
        except FileNotFoundError:  # the one that lists the folder
            continue
    return sum(link.startswith("socket:") for link in links)


async def all_gone(lean: LeanTransport, wire: RawUpstream) -> None:
    """Only idle connections are left; a request still gets through; then none is left."""
    assert await comes_true(lambda: lean.open == lean.idle)
    assert lean.waiting == 0
    wire.script = Peer.json
    assert (await Ask(lean, wire.url).whole())[0] == 200
    await lean.aclose()
    assert (lean.open, lean.idle) == (0, 0)
    assert await comes_true(lambda: wire.open_connections == 0)


async def test_answers_leak_nothing(roomy: LeanTransport, wire: RawUpstream) -> None:
    """Read to the end, on few connections."""
    ask = Ask(roomy, wire.url)
    await many(ask.whole)
    assert len(wire.requests) == ENOUGH
    await all_gone(roomy, wire)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 6])
async def test_requests_cancelled_on_their_way_leak_nothing(
    roomy: LeanTransport, wire: RawUpstream, turns: int
) -> None:
    """While they wait for a place, for an address, for the connection, and for the head."""
    wire.script = lambda peer: peer.wait_until_left() and None
    before = sockets()
    await many(lambda: cancelled_after(Ask(roomy, wire.url), turns))
    await all_gone(roomy, wire)
    assert await comes_true(lambda: sockets() <= before)


async def test_requests_cancelled_before_the_head_leak_nothing(
    roomy: LeanTransport, wire: RawUpstream
) -> None:
    """The upstream has them, and keeps silent."""
    wire.script = lambda peer: peer.wait_until_left() and None

    async def one() -> None:
        seen = len(wire.requests)
        task = asyncio.create_task(Ask(roomy, wire.url).whole("POST", body=b"x"))
        assert await comes_true(lambda: len(wire.requests) > seen)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await many(one)
    await all_gone(roomy, wire)


async def test_answers_cancelled_in_the_middle_leak_nothing(
    roomy: LeanTransport, wire: RawUpstream
) -> None:
    """Their reader waits for more, and is cancelled."""

    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(b"x")
        peer.wait_until_left()

    wire.script = script

    async def one() -> None:
        got: list[bytes] = []
        response = await Ask(roomy, wire.url)()
        task = asyncio.create_task(body_of(response, got))
        assert await comes_true(lambda: got != [])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await many(one)
    await all_gone(roomy, wire)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"])
async def test_resets_leak_nothing(roomy: LeanTransport, wire: RawUpstream, sent: bytes) -> None:
    """Before the head, and in the middle of a body."""

    def script(peer: Peer) -> None:
        peer.send(sent)
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01" + b"\x00" * 7)
        peer.close()

    wire.script = script

    async def one() -> None:
        with pytest.raises(httpx.TransportError):
            await Ask(roomy, wire.url).whole("POST", body=b"x")

    await many(one)
    await all_gone(roomy, wire)


async def test_uploads_cancelled_in_the_middle_leak_nothing(
    roomy: LeanTransport, wire: RawUpstream
) -> None:
    """Their bodies are told: whoever feeds them ends, too."""
    open_bodies = 0

    async def pieces(begun: asyncio.Event) -> AsyncIterator[bytes]:
        nonlocal open_bodies
        open_bodies += 1
        try:
            yield b"x"
            begun.set()
            await asyncio.Event().wait()
        finally:
            open_bodies -= 1

    async def one() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(Ask(roomy, wire.url).whole("POST", body=pieces(begun)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await many(one)
    assert await comes_true(lambda: open_bodies == 0)
    assert wire.requests == []
    await all_gone(roomy, wire)

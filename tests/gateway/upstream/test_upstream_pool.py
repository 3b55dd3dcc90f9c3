"""Connections: used again while nothing is wrong with them, never too many, in the order asked."""

import asyncio
import threading
import time

import httpx
import pytest
from asking import TLS, Ask, body_of, faulty_over_aiohttp
from raw_upstream import Peer, RawUpstream, answering
from waiting import comes_true

from gateway.upstream.lean import LeanTransport
from gateway.upstream.pool import PoolLimits


class Gate:
    """A script that answers when it is told to."""

    def __init__(self, wire: RawUpstream) -> None:
        self._go_on = threading.Semaphore(0)
        wire.script = self

    def __call__(self, peer: Peer) -> None:
        if self._go_on.acquire(timeout=10):
            peer.answer(peer.received.target)

    def open(self, answers: int = 1) -> None:
        self._go_on.release(answers)


async def test_connections_are_used_again(ask: Ask, wire: RawUpstream) -> None:
    """Whatever the method, a body or none, streamed or not."""
    for method, body in [("GET", b""), ("POST", b"x"), ("HEAD", b""), ("PUT", [b"a", b"b"])]:
        assert (await ask.whole(method, body=body))[0] == 200
    assert wire.connections == 1


async def test_the_one_used_last_is_used_next(ask_lean: Ask, wire: RawUpstream) -> None:
    """So that those not needed grow old."""
    gate = Gate(wire)
    pair = [asyncio.create_task(ask_lean.whole(target=target)) for target in (b"/1", b"/2")]
    assert await comes_true(lambda: len(wire.requests) == 2)
    gate.open(2)
    await asyncio.gather(*pair)
    gate.open(5)
    for _ in range(5):
        await ask_lean.whole()
    assert len({received.connection for received in wire.requests[2:]}) == 1


@pytest.mark.parametrize(
    "field", [b"Connection: close", b"connection: x, CLOSE", b"Connection: keep-alive, close"]
)
async def test_an_answer_may_be_the_last(ask: Ask, wire: RawUpstream, field: bytes) -> None:
    """Then the connection is not used again, though it may still be open."""
    wire.script = answering(b"x", field)
    for _ in range(2):
        await ask.whole()
    assert wire.connections == 2


@faulty_over_aiohttp("it knows only what the event loop has seen")
async def test_a_connection_that_the_upstream_closed_is_not_used(
    ask: Ask, wire: RawUpstream
) -> None:
    """Also when the news is still in the kernel: the loop has not seen it yet."""

    def script(peer: Peer) -> None:
        peer.json()
        peer.close()

    wire.script = script
    for _ in range(20):
        assert (await ask.whole("POST", body=b"x"))[0] == 200
        time.sleep(0.01)  # noqa: ASYNC251 - the loop is to see nothing
    assert len(wire.requests) == 20


async def test_an_answer_that_is_not_read_costs_its_connection(
    lean: LeanTransport, ask_lean: Ask, wire: RawUpstream
) -> None:
    """The rest of it would be the next answer."""
    wire.script = answering(b"x" * 10_000_000)
    await (await ask_lean()).aclose()
    wire.script = answering(b"own")
    assert (await ask_lean.whole())[2] == b"own"
    assert (lean.opened, lean.open, lean.idle) == (2, 1, 1)


async def test_there_are_not_too_many(
    lean: LeanTransport, ask_lean: Ask, wire: RawUpstream
) -> None:
    """The fourth request waits for the first to end; requests are served in their order."""
    gate = Gate(wire)
    tasks = []
    for number in range(9):
        tasks.append(asyncio.create_task(ask_lean.whole(target=b"/%d" % number)))
        await asyncio.sleep(0)
    assert await comes_true(lambda: len(wire.requests) == 3)
    assert await comes_true(lambda: lean.waiting == 6)
    for sent in range(4, 10):
        gate.open()
        assert await comes_true(lambda sent=sent: len(wire.requests) == sent)
    gate.open(3)
    assert [body for _, _, body in await asyncio.gather(*tasks)] == [
        b"/%d" % number for number in range(9)
    ]
    order = [int(received.target[1:]) for received in wire.requests]
    assert sorted(order[:3]) == [0, 1, 2]
    assert order[3:] == [3, 4, 5, 6, 7, 8]
    assert (wire.connections, lean.opened, lean.open) == (3, 3, 2)
    assert (lean.idle, lean.waiting) == (2, 0)


async def test_who_waits_gets_the_place_of_a_lost_connection(
    lean: LeanTransport, ask_lean: Ask, wire: RawUpstream
) -> None:
    """A connection that ends makes room for a new one."""
    gate = Gate(wire)
    tasks = [asyncio.create_task(ask_lean.whole()) for _ in range(5)]
    assert await comes_true(lambda: lean.waiting == 2 and len(wire.requests) == 3)
    for task in tasks[:3]:
        task.cancel()
    gate.open(5)
    assert [status for status, _, _ in await asyncio.gather(*tasks[3:])] == [200, 200]
    await asyncio.gather(*tasks[:3], return_exceptions=True)
    assert (lean.opened, lean.open, lean.waiting) == (5, 2, 0)


async def test_who_stopped_waiting_takes_nothing(
    lean: LeanTransport, ask_lean: Ask, wire: RawUpstream
) -> None:
    """A place that falls to a request just cancelled goes to the next one."""
    gate = Gate(wire)
    tasks = [asyncio.create_task(ask_lean.whole()) for _ in range(6)]
    assert await comes_true(lambda: lean.waiting == 3 and len(wire.requests) == 3)
    tasks[0].cancel()  # its place falls to tasks[3], which is cancelled in the same turn
    tasks[3].cancel()
    tasks[4].cancel()
    gate.open(6)
    assert (await tasks[5])[0] == 200
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await comes_true(lambda: lean.open == lean.idle)
    assert lean.waiting == 0


async def test_who_waits_gets_no_connection_that_the_upstream_has_closed(wire: RawUpstream) -> None:
    """It is handed on with its end unseen: a new one is opened in its place."""

    def script(peer: Peer) -> None:
        peer.json()
        peer.close()

    wire.script = script
    async with LeanTransport(TLS, PoolLimits(connections=1)) as lean:
        ask = Ask(lean, wire.url)
        tasks = [asyncio.create_task(ask.whole("POST", body=b"x")) for _ in range(3)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            time.sleep(0.01)  # noqa: ASYNC251 - the loop sees answer and end together, at the most
        assert [task.result()[0] for task in tasks] == [200, 200, 200]
        assert lean.opened == 3


async def test_a_connection_that_stands_after_the_end_is_closed(
    lean: LeanTransport, ask_lean: Ask, wire: RawUpstream
) -> None:
    """It was being opened when the transport was closed."""
    task = asyncio.create_task(ask_lean())
    await asyncio.sleep(0)
    assert (lean.open, lean.opened) == (1, 0)
    await lean.aclose()
    with pytest.raises(httpx.ConnectError):
        await task
    assert (lean.open, wire.requests) == (0, [])


async def test_waiting_for_a_connection_has_an_end(
    lean: LeanTransport, ask_lean: Ask, wire: RawUpstream
) -> None:
    """Named for what it is."""
    gate = Gate(wire)
    tasks = [asyncio.create_task(ask_lean.whole()) for _ in range(3)]
    assert await comes_true(lambda: len(wire.requests) == 3)
    ask_lean.pool_s = 0.1
    with pytest.raises(httpx.PoolTimeout):
        await ask_lean()
    assert lean.waiting == 0
    gate.open(3)
    await asyncio.gather(*tasks)


async def test_few_are_kept_and_not_for_long(wire: RawUpstream) -> None:
    """Beyond the number they are closed at once, the others when their time is over."""
    limits = PoolLimits(connections=9, idle=2, idle_s=0.3)
    async with LeanTransport(TLS, limits) as lean:
        ask = Ask(lean, wire.url)
        gate = Gate(wire)
        gate.open(99)
        await asyncio.gather(*(ask.whole() for _ in range(4)))
        assert (lean.open, lean.idle) == (2, 2)
        await asyncio.sleep(0.2)
        await ask.whole()
        assert (lean.open, lean.idle) == (2, 2)
        await asyncio.sleep(0.2)
        assert (lean.open, lean.idle) == (1, 1)
        assert await comes_true(lambda: lean.open == 0)
        assert await comes_true(lambda: wire.open_connections == 0)


async def test_origins_do_not_share_connections(
    lean: LeanTransport, ask_lean: Ask, wire: RawUpstream
) -> None:
    """Nor their limits."""
    with RawUpstream() as other:
        other.script = answering(b"other")
        await ask_lean.whole()
        assert (await Ask(lean, other.url).whole())[2] == b"other"
        assert (wire.connections, other.connections, lean.idle) == (1, 1, 2)


async def test_closing_ends_everything(wire: RawUpstream) -> None:
    """What is under way ends in an error, what waits too, and no socket stays."""
    lean = LeanTransport(TLS, PoolLimits(connections=2))
    ask = Ask(lean, wire.url)

    def stream(peer: Peer) -> None:
        peer.start_stream()
        peer.wait_until_left()

    wire.script = stream
    response = await ask()
    gate = Gate(wire)
    tasks = [asyncio.create_task(ask.whole()) for _ in range(2)]
    assert await comes_true(lambda: lean.waiting == 1 and len(wire.requests) == 2)
    await lean.aclose()
    with pytest.raises(httpx.ReadError):
        await body_of(response)
    for task in tasks:
        with pytest.raises(httpx.TransportError):
            await task
    assert (lean.open, lean.idle, lean.waiting) == (0, 0, 0)
    with pytest.raises(httpx.TransportError):
        await ask()
    gate.open()


async def test_many_waiting_cost_no_more_each(wire: RawUpstream) -> None:
    """Thousands queue up for one connection and are all served, one after the other."""
    async with LeanTransport(TLS, PoolLimits(connections=1)) as lean:
        ask = Ask(lean, wire.url)
        answers = await asyncio.gather(*(ask.whole() for _ in range(2_000)))
        assert {status for status, _, _ in answers} == {200}
        assert (wire.connections, lean.open, lean.waiting) == (1, 1, 0)

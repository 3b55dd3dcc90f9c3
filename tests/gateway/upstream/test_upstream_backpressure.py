"""Slow readers hold back the upstream, slow upstreams hold back the caller: memory is bounded."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from asking import Ask, body_of, only_lean
from raw_upstream import Peer, RawUpstream

PIECE = b"x" * 65_536
PIECES = 800  # 52 MB: more than the kernel's buffers take
FEW = 20_000_000


@pytest.mark.parametrize("chunked", [True, False])
async def test_an_answer_that_nobody_reads_stays_with_the_upstream(
    ask: Ask, wire: RawUpstream, chunked: bool
) -> None:
    """Until it is read; meanwhile the upstream's silence is no failure."""
    sent = 0

    def script(peer: Peer) -> None:
        nonlocal sent
        if chunked:
            peer.start_stream(b"application/octet-stream")
        else:
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (PIECES * len(PIECE)))
        for _ in range(PIECES):
            (peer.chunk if chunked else peer.send)(PIECE)
            sent += len(PIECE)
        if chunked:
            peer.end_stream()

    wire.script = script
    ask.read_s = 0.4
    response = await ask()
    await asyncio.sleep(0.8)
    assert 0 < sent < FEW
    held_back = sent
    assert len(await body_of(response)) == PIECES * len(PIECE) > held_back
    assert sent == PIECES * len(PIECE)


@only_lean
async def test_a_connection_that_held_back_is_used_again(ask: Ask, wire: RawUpstream) -> None:
    """It reads again afterwards."""
    for _ in range(3):
        wire.script = lambda peer: peer.answer(PIECE * 20)
        response = await ask()
        await asyncio.sleep(0.05)
        assert await body_of(response) == PIECE * 20
    assert wire.connections == 1


@pytest.mark.parametrize("stated", [True, False])
async def test_an_upload_that_nobody_reads_stays_with_the_caller(ask: Ask, stated: bool) -> None:
    """It is asked for no more pieces than the upstream takes."""
    taken = received = 0
    go_on = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(PIECES):
            taken += len(PIECE)
            yield PIECE

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await reader.readuntil(b"\r\n\r\n")
        await go_on.wait()
        while received < PIECES * len(PIECE):
            received += (await reader.read(1_000_000)).count(b"x")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ask.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    headers = [(b"content-length", b"%d" % (PIECES * len(PIECE)))] if stated else []
    task = asyncio.create_task(ask.whole("POST", headers=headers, body=pieces()))
    await asyncio.sleep(0.4)
    assert 0 < taken < FEW
    go_on.set()
    assert (await task)[0] == 204
    assert received == taken == PIECES * len(PIECE)
    await ask.transport.aclose()
    server.close()
    await server.wait_closed()


@only_lean
async def test_an_answer_held_back_beside_its_upload_is_no_silence(ask: Ask) -> None:
    """The upload ends while nobody reads the answer: that is the reader's doing."""
    go_on = asyncio.Event()
    body = PIECE * PIECES

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await go_on.wait()
        yield b"last"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"first")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ask.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    ask.read_s = 0.3
    response = await ask("POST", body=pieces())
    await asyncio.sleep(0.2)
    go_on.set()
    await asyncio.sleep(0.7)
    assert len(await body_of(response)) == len(body)
    await ask.transport.aclose()
    server.close()
    await server.wait_closed()


@only_lean
async def test_an_upstream_that_waits_for_the_upload_is_not_silent(ask: Ask) -> None:
    """Also after its answer was held back for a while."""
    go_on = asyncio.Event()
    body = PIECE * PIECES

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await go_on.wait()
        yield b"last"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"first")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1) + body)
        await reader.readuntil(b"last")
        writer.write(b"!")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ask.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    ask.read_s = 0.3
    reading = asyncio.create_task(body_of(await ask("POST", body=pieces())))
    await asyncio.sleep(1)
    go_on.set()
    assert len(await reading) == len(body) + 1
    await ask.transport.aclose()
    server.close()
    await server.wait_closed()

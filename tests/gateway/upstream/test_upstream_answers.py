"""What is read: the upstream's bytes, and where an answer ends (RFC 9112 section 6.3)."""

import asyncio
import threading
from collections.abc import AsyncIterator

import httpx
import pytest
from asking import Ask, body_of, faulty_over_aiohttp, only_lean
from raw_upstream import Peer, RawUpstream, Script, answering
from waiting import comes_true


def sending(*pieces: bytes, close: bool = False) -> Script:
    """A script that sends these bytes, whatever they are."""

    def script(peer: Peer) -> None:
        peer.send(*pieces)
        if close:
            peer.close()

    return script


async def test_a_head_arrives_as_it_is(ask: Ask, wire: RawUpstream) -> None:
    """Order, repeats, the names' case, bytes beyond ASCII; without the spaces around a value."""
    wire.script = sending(
        b"HTTP/1.1 201 Made\r\nX-Odd-CASE:1\r\nset-cookie: a=1\r\nx-empty:\r\n"
        b"Set-Cookie:  b=2 \t\r\nx-latin: n\xe9\xff\r\nx-tab: a\tb\r\nContent-Length: 0\r\n\r\n"
    )
    status, headers, body = await ask.whole()
    assert (status, body) == (201, b"")
    assert headers == [
        (b"X-Odd-CASE", b"1"),
        (b"set-cookie", b"a=1"),
        (b"x-empty", b""),
        (b"Set-Cookie", b"b=2"),
        (b"x-latin", b"n\xe9\xff"),
        (b"x-tab", b"a\tb"),
        (b"Content-Length", b"0"),
    ]


FRAMED = {
    "length": sending(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    "chunks": sending(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
    ),
    "trailers": sending(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"
    ),
    "close": sending(b"HTTP/1.1 200 OK\r\n\r\nhello", close=True),
    "old": sending(b"HTTP/1.0 200 OK\r\n\r\nhello", close=True),
    "interim": sending(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ),
    "no reason": sending(b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello"),
    "bytewise": sending(
        *(bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    ),
}


@pytest.mark.parametrize("framing", FRAMED)
async def test_a_body_ends_where_its_framing_says(
    ask: Ask, wire: RawUpstream, framing: str
) -> None:
    """Three requests in a row get one answer each; trailers and interim answers are dropped."""
    wire.script = FRAMED[framing]
    for _ in range(3):
        status, headers, body = await ask.whole()
        assert (status, body) == (200, b"hello")
        assert {name.lower() for name, _ in headers} <= {b"content-length", b"transfer-encoding"}
    assert wire.connections == (3 if framing in ("close", "old") else 1)


@only_lean
async def test_chunks_of_an_old_server_are_its_connections_last(
    ask: Ask, wire: RawUpstream
) -> None:
    """HTTP/1.0 knows no chunks, whatever it says about keeping alive (RFC 9112 section 6.1)."""
    wire.script = sending(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
    )
    for _ in range(2):
        assert (await ask.whole())[2] == b"hello"
    assert wire.connections == 2


BODILESS = [
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("HEAD", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
    ("POST", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
]


@pytest.mark.parametrize(("method", "answer"), BODILESS)
async def test_an_answer_without_a_body_ends_with_its_head(
    ask: Ask, wire: RawUpstream, method: str, answer: bytes
) -> None:
    """Whatever length it states; the connection serves the next request, which has a body."""
    wire.script = sending(answer)
    assert (await ask.whole(method))[2] == b""
    wire.script = FRAMED["length"]
    assert (await ask.whole())[2] == b"hello"
    assert wire.connections == 1


HEAD = b"HTTP/1.1 200 OK\r\n"
BROKEN = {
    "nothing": b"",
    "no HTTP": b"+OK ready\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a list of lengths": HEAD + b"Content-Length: 1, 2\r\n\r\nab",
    "no number": HEAD + b"Content-Length: x\r\n\r\nab",
    "a sign": HEAD + b"Content-Length: +2\r\n\r\nab",
    "a length that is not one": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nab",
    "length and chunks": (
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    ),
    "chunks and length": (
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    ),
    "a coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\nab",
    "a folded field": HEAD + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\nab",
    "a space in a name": HEAD + b"X : a\r\nContent-Length: 2\r\n\r\nab",
    "a NUL": HEAD + b"X: a\x00b\r\nContent-Length: 2\r\n\r\nab",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
    "a long head": HEAD + b"X: " + b"x" * 70_000 + b"\r\nContent-Length: 2\r\n\r\nab",
    "a head without end": HEAD + b"X: y\r\n" * 100_000,
    "many fields": HEAD + b"X: y\r\n" * 300 + b"Content-Length: 2\r\n\r\nab",
    "interim answers without end": b"HTTP/1.1 102 Processing\r\n\r\n" * 5_000,
}


@only_lean
@pytest.mark.parametrize("fault", BROKEN)
async def test_a_head_that_leaves_a_doubt_is_an_error(
    ask: Ask, wire: RawUpstream, fault: str
) -> None:
    """And its connection is not used again."""
    wire.script = sending(BROKEN[fault], close=True)
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        await ask()
    wire.script = FRAMED["length"]
    assert (await ask.whole())[2] == b"hello"
    assert wire.connections == 2


@pytest.mark.parametrize("fields", [b"Connection: upgrade\r\nUpgrade: x\r\n", b""])
async def test_another_protocol_is_an_error(ask: Ask, wire: RawUpstream, fields: bytes) -> None:
    """On either transport: nobody asked for it, and what follows is no HTTP."""
    wire.script = sending(b"HTTP/1.1 101 Switching Protocols\r\n" + fields + b"\r\nab", close=True)
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        await ask()


CUT_SHORT = {
    "length": HEAD + b"Content-Length: 9\r\n\r\nhello",
    "chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhello",
    "no last chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "no end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
}


@pytest.mark.parametrize("fault", CUT_SHORT)
async def test_a_body_that_is_cut_short_is_an_error(
    ask: Ask, wire: RawUpstream, fault: str
) -> None:
    """After the bytes that came: never an end that looks like one."""
    wire.script = sending(CUT_SHORT[fault], close=True)
    response = await ask()
    got: list[bytes] = []
    with pytest.raises(httpx.TransportError):
        await body_of(response, got)
    assert b"".join(got) == b"hello"


@faulty_over_aiohttp("it notices by the silence behind them only")
async def test_chunks_that_are_none_are_an_error(ask: Ask, wire: RawUpstream) -> None:
    """At once, though the connection stays open."""

    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(b"hello")
        peer.send(b"no chunk\r\n")
        peer.wait_until_left()

    wire.script = script
    ask.read_s = 1
    response = await ask()
    with pytest.raises(httpx.RemoteProtocolError):
        await asyncio.wait_for(body_of(response), 2)


@only_lean
@pytest.mark.parametrize("padding", [b"1;" + b"x" * 400_000, b"0\r\n" + b"X: y\r\n" * 70_000])
async def test_what_is_no_body_is_bounded(ask: Ask, wire: RawUpstream, padding: bytes) -> None:
    """Endless chunk extensions and trailers fill no memory."""
    wire.script = sending(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", padding)
    with pytest.raises(httpx.RemoteProtocolError, match="65536 bytes"):
        await body_of(await ask())


SURPLUS = [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", b"\x00" * 10]


@only_lean
@pytest.mark.parametrize("surplus", SURPLUS)
@pytest.mark.parametrize("together", [True, False])
async def test_bytes_behind_an_answer_are_nobodys_answer(
    ask: Ask, wire: RawUpstream, surplus: bytes, together: bool
) -> None:
    """The answer stands, its connection is dropped, and the next request gets its own."""
    answer = HEAD + b"Content-Length: 5\r\n\r\nhello"
    surplus_sent = threading.Event()

    def script(peer: Peer) -> None:
        peer.send(*((answer + surplus,) if together else (answer, surplus)))
        surplus_sent.set()

    wire.script = script
    assert (await ask.whole())[2] == b"hello"
    await asyncio.to_thread(surplus_sent.wait, 10)
    wire.script = answering(b"own")
    assert (await ask.whole())[2] == b"own"
    assert wire.connections == 2


@only_lean
async def test_an_answer_to_head_with_a_body_is_dropped_with_its_connection(
    ask: Ask, wire: RawUpstream
) -> None:
    """Some servers send one: it is not the next answer."""
    wire.script = sending(HEAD + b"Content-Length: 5\r\n\r\nhello")
    assert (await ask.whole("HEAD"))[2] == b""
    wire.script = answering(b"own")
    assert (await ask.whole())[2] == b"own"
    assert wire.connections == 2


async def test_pieces_arrive_as_they_are_sent(ask: Ask, wire: RawUpstream) -> None:
    """Each before the next one is sent."""
    go_on = threading.Semaphore(0)

    def script(peer: Peer) -> None:
        peer.start_stream()
        for number in range(5):
            peer.chunk(b"data: %d\n\n" % number)
            assert go_on.acquire(timeout=10)
        peer.end_stream()

    wire.script = script
    response = await ask()
    got: list[bytes] = []
    reading = asyncio.create_task(body_of(response, got))
    for number in range(5):
        assert await comes_true(lambda count=number + 1: len(got) == count)  # type: ignore[misc]
        go_on.release()
    await reading
    assert got == [b"data: %d\n\n" % number for number in range(5)]


async def test_an_answer_that_comes_before_the_upload_ends_is_given(
    ask: Ask,
) -> None:
    """A 413 does not wait for the body that it refuses, and its connection is not used again."""
    never = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        await never.wait()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n")
        await writer.drain()
        await reader.read()
        writer.close()

    connections = 0
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    ask.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for _ in range(2):
        assert await asyncio.wait_for(ask.whole("POST", body=pieces()), 10) == (
            413, [(b"Content-Length", b"3")], b"no\n"
        )  # fmt: skip
    assert connections == 2
    server.close()
    await server.wait_closed()

"""What goes wrong, as httpx names it: at once where it is known, in time where it is not."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from asking import Ask, body_of, faulty_over_aiohttp, only_lean
from raw_upstream import Peer, RawUpstream
from waiting import comes_true

from gateway.embedded import free_port

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"


@faulty_over_aiohttp("httpx-aiohttp calls it a timeout")
async def test_a_refused_connection_is_an_error(ask: Ask) -> None:
    """At once."""
    ask.url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(httpx.ConnectError):
        await ask()


@faulty_over_aiohttp("httpx-aiohttp calls it a timeout")
async def test_an_unknown_host_is_an_error(ask: Ask) -> None:
    """A name that never is one (RFC 6761)."""
    ask.url = "http://nobody.invalid"
    with pytest.raises(httpx.ConnectError):
        await ask()


@only_lean
async def test_a_name_that_cannot_be_one_is_an_error(ask: Ask) -> None:
    """Labels have 63 bytes at most."""
    ask.url = f"http://{'x' * 64}.test"
    with pytest.raises(httpx.ConnectError):
        await ask()


@pytest.mark.parametrize("scheme", ["ftp", "ws"])
@only_lean
async def test_another_scheme_is_an_error(ask: Ask, scheme: str) -> None:
    """Not taken for http."""
    ask.url = f"{scheme}://127.0.0.1"
    with pytest.raises(httpx.UnsupportedProtocol):
        await ask()


async def test_a_connection_that_does_not_stand_in_time_is_an_error(ask: Ask) -> None:
    """A listener whose queue is full answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = [_connecting(listener.getsockname()) for _ in range(4)]
        ask.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        ask.connect_s = 0.2
        with pytest.raises(httpx.TimeoutException) as caught:
            await ask()
        assert isinstance(caught.value.__cause__, TimeoutError)
        for client in waiting:
            client.close()


def _connecting(address: tuple[str, int]) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(address)
    return client


async def test_silence_before_the_head_is_an_error(ask: Ask, wire: RawUpstream) -> None:
    """As long as was said, and the connection ends."""
    wire.script = lambda peer: peer.wait_until_left() and None
    ask.read_s = 0.2
    before = time.monotonic()
    with pytest.raises(httpx.ReadTimeout):
        await ask()
    assert time.monotonic() - before >= 0.19
    assert await comes_true(lambda: wire.open_connections == 0)


async def test_silence_in_a_body_is_an_error(ask: Ask, wire: RawUpstream) -> None:
    """Counted from the last byte, after the bytes that came."""

    def script(peer: Peer) -> None:
        peer.send(HEAD + b"hello")
        peer.wait_until_left()

    wire.script = script
    ask.read_s = 0.2
    got: list[bytes] = []
    response = await ask()
    with pytest.raises(httpx.ReadTimeout):
        await body_of(response, got)
    assert b"".join(got) == b"hello"
    assert await comes_true(lambda: wire.open_connections == 0)


async def test_a_long_answer_is_no_silence(ask: Ask, wire: RawUpstream) -> None:
    """Bytes now and then keep it alive, for longer than the longest silence."""

    def script(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\n")
        time.sleep(0.2)
        peer.send(b"Content-Length: 6\r\n\r\n")
        peer.send(*(b"x" for _ in range(6)), every_s=0.2)

    wire.script = script
    ask.read_s = 0.5
    assert (await ask.whole())[2] == b"xxxxxx"


@only_lean
async def test_silences_of_different_length_are_kept_apart(ask: Ask, wire: RawUpstream) -> None:
    """A patient request on a connection makes the next, impatient one wait no longer."""
    ask.read_s = 60
    await ask.whole()
    wire.script = lambda peer: peer.wait_until_left() and None
    ask.read_s = 0.2
    with pytest.raises(httpx.ReadTimeout):
        await asyncio.wait_for(ask(), 5)
    assert wire.connections == 1


async def test_a_slow_client_is_no_silent_upstream(ask: Ask, wire: RawUpstream) -> None:
    """While the body to send is waited for, the upstream has nothing to say."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(0.2)
            yield b"x"

    ask.read_s = 0.4
    assert (await ask.whole("POST", body=pieces()))[0] == 200
    assert wire.requests[0].body == b"xxxx"


@only_lean
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_upstream_that_takes_nothing_is_an_error(ask: Ask, streamed: bool) -> None:
    """It listens, but does not read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ask.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        ask.read_s = ask.write_s = 0.2
        body = b"x" * 30_000_000
        pieces = (body[at : at + 100_000] for at in range(0, len(body), 100_000))
        with pytest.raises(httpx.WriteTimeout):
            await ask("POST", body=pieces if streamed else body)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nX: "])
async def test_a_connection_that_ends_before_the_head_is_an_error(
    ask: Ask, wire: RawUpstream, begun: bytes
) -> None:
    """Nothing is sent a second time: the upstream has seen it."""

    def script(peer: Peer) -> None:
        peer.send(begun)
        peer.close()

    wire.script = script
    with pytest.raises(httpx.TransportError):
        await ask("POST", body=b"x")
    assert len(wire.requests) == 1


async def test_a_reset_is_an_error(ask: Ask, wire: RawUpstream) -> None:
    """In the middle of a body."""

    def script(peer: Peer) -> None:
        peer.send(HEAD + b"hello")
        time.sleep(0.1)
        peer.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        peer.close()

    wire.script = script
    response = await ask()
    with pytest.raises(httpx.TransportError):
        await body_of(response)


class Broken(Exception):  # noqa: N818 - any exception of a caller
    pass


@only_lean
async def test_a_body_that_cannot_be_read_is_the_callers_error(ask: Ask, wire: RawUpstream) -> None:
    """It comes back as it was raised, and the upstream sees a request that is not whole."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        raise Broken

    with pytest.raises(Broken):
        await ask("POST", body=pieces())
    assert await comes_true(lambda: wire.open_connections == 0)
    assert wire.requests == []


@only_lean
async def test_a_body_that_is_cancelled_ends_the_request(ask: Ask, wire: RawUpstream) -> None:
    """By whoever feeds it: nobody waits for the rest."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        raise asyncio.CancelledError

    with pytest.raises(httpx.ReadError):
        await asyncio.wait_for(ask("POST", body=pieces()), 5)
    assert wire.requests == []


@only_lean
@pytest.mark.parametrize("streamed", [True, False])
async def test_bytes_that_still_leave_are_no_silence(ask: Ask, streamed: bool) -> None:
    """A large body to a slow reader takes longer than the longest silence."""
    body = b"x" * 12_000_000
    headers = [(b"content-length", b"%d" % len(body))]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        left = len(body)
        while left:
            left -= len(await reader.read(500_000))
            await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=250_000)
    ask.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    ask.read_s = ask.write_s = 0.5
    before = time.monotonic()
    assert (await ask.whole("POST", b"/", headers, [body] if streamed else body))[0] == 204
    assert time.monotonic() - before > 1
    await ask.transport.aclose()
    server.close()
    await server.wait_closed()


@only_lean
async def test_no_message_repeats_what_was_sent(ask: Ask, wire: RawUpstream) -> None:
    """Keys are in fields and bodies; upstreams may echo them in anything."""
    secret = b"sk-secret"
    messages = []
    for answer in (
        secret,
        b"HTTP/1.1 " + secret,
        b"HTTP/1.1 200 OK\r\n" + secret + b" : x\r\n\r\n",
    ):
        wire.script = lambda peer, answer=answer: peer.send(answer)  # type: ignore[misc]
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            await ask("POST", b"/" + secret, [(b"authorization", secret)], secret)
        messages.append(repr(caught.value) + repr(caught.value.__cause__))
    with pytest.raises(httpx.LocalProtocolError) as refused:
        await ask("POST", b"/", [(b"authorization", secret + b"\n")])
    assert secret.decode() not in "".join([*messages, repr(refused.value)])

"""Clients that take their time: each has so much of it, however they spread their bytes."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_stack import Stack, StartGateway
from raw_calls import CHAT, FILES, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import RawUpstream
from servers import RedisServer
from siege import WAITS_S, besieged
from waiting import comes_true

from gateway import clients

Tell = Callable[[str], None]
SLOW_CLIENTS = 200
PAUSE_S = 0.2
FEW = 256
"""Descriptors that the process may have."""
HEAD = request("GET", FILES, [("x-long", "a" * 1000)])
REFUSED_BODY = request("POST", CHAT, [("Content-Length", "100000")])


@pytest.fixture
def brisk(start_gateway: StartGateway, redis_server: RedisServer) -> Stack:
    """A gateway that gives a head a second."""
    return start_gateway(redis_server, CLIENT_HEAD_TIMEOUT_S="1", LIMITER_DEADLINE_MS="2000")


async def drip(port: int, data: bytes) -> bytes:
    """Send a byte at a time until the other side ends the connection; what it said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        answer = asyncio.create_task(reader.read())
        for at in range(len(data)):
            if answer.done():
                break
            writer.write(data[at : at + 1])
            await asyncio.sleep(PAUSE_S)
        return await asyncio.wait_for(answer, WAITS_S)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def test_a_head_that_drips_in_is_not_waited_for(
    brisk: Stack, raw: RawUpstream, tell: Tell
) -> None:
    """A byte now and then gains no time: 408, and the descriptors are there again."""
    tenant = await asyncio.to_thread(provision, brisk)
    async with besieged(brisk, tenant, tell, f"{SLOW_CLIENTS} slow heads") as siege:
        async with asyncio.timeout(3 * WAITS_S):
            said = await asyncio.gather(
                *(drip(brisk.gateway.port, HEAD) for _ in range(SLOW_CLIENTS))
            )
        siege.statuses.update(int(answer.split()[1]) for answer in said)
    assert set(siege.statuses) == {408}
    assert all(b"x-long" not in received.head for received in raw.requests)


async def test_a_connection_that_waits_between_requests_is_kept(
    brisk: Stack, raw: RawUpstream
) -> None:
    """The time for a head runs from its first byte, not from the answer before it."""
    assert raw.requests == []
    reader, writer = await asyncio.open_connection("127.0.0.1", brisk.gateway.port)
    for _ in range(2):
        writer.write(request("GET", "/healthz"))
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAITS_S)
        assert head.startswith(b"HTTP/1.1 200 ")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        await asyncio.sleep(2.5)  # longer than a head may take, whenever it is looked at
    writer.close()


async def test_a_body_that_nobody_wants_holds_nobody_up(
    brisk: Stack, raw: RawUpstream, tell: Tell
) -> None:
    """Without a key the answer is there at once, however slowly the body comes."""
    tenant = await asyncio.to_thread(provision, brisk)

    async def upload() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", brisk.gateway.port)
        writer.write(REFUSED_BODY)
        status = int((await asyncio.wait_for(reader.readline(), WAITS_S)).split()[1])
        for _ in range(5):
            writer.write(b"a")
            await asyncio.sleep(PAUSE_S)
        writer.transport.abort()
        return status

    async with besieged(brisk, tenant, tell, f"{SLOW_CLIENTS} slow bodies") as siege:
        siege.statuses.update(await asyncio.gather(*(upload() for _ in range(SLOW_CLIENTS))))
    assert set(siege.statuses) == {401}
    assert all(received.target.endswith(b"chat/completions") for received in raw.requests)


async def test_more_clients_than_descriptors_leave_enough_to_serve(
    start_gateway: StartGateway,
    redis_server: RedisServer,
    raw: RawUpstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond the bound new connections are closed; who is connected is served, then all are."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -n {FEW}\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(python))
        stack = await asyncio.to_thread(start_gateway, redis_server, LIMITER_DEADLINE_MS="2000")
    tenant = await asyncio.to_thread(provision, stack)
    assert raw.requests == []
    with RawClient(stack.gateway.port) as early:
        streams = [
            await asyncio.open_connection("127.0.0.1", stack.gateway.port) for _ in range(FEW)
        ]
        assert await comes_true(lambda: any(reader.at_eof() for reader, _ in streams), WAITS_S)
        early.send(request("POST", CHAT, fields(tenant.agent), chat()))
        assert (await asyncio.to_thread(early.answer, "POST")).status == 200
        for _, writer in streams:
            writer.transport.abort()
    assert "too many clients" in stack.gateway.log
    assert await comes_true(stack.gateway.ready, WAITS_S)
    assert stack.gateway.readyz()["limiter"]["admitted_open"] == 0


@pytest.mark.parametrize(("descriptors", "most"), [(256, 192), (1024, 768), (20_000, 18_976)])
def test_some_descriptors_are_never_for_clients(descriptors: int, most: int) -> None:
    """A quarter of few, a thousand of many."""
    assert clients.most(descriptors) == most

"""A client that is gone in the very moment in which it is answered."""

import asyncio
import logging
from urllib.parse import urlsplit

import pytest
from sanic import Request
from sanic_apps import new_app, serving

from gateway import http1
from gateway.http1 import StrictHttp, StrictProtocol, Verbatim


class Promised(Verbatim):
    """An answer of which there is more to come."""

    length = 1000
    status = 200

    def lines(self) -> bytes:
        return b""


async def test_nobody_is_answered_where_nobody_is(caplog: pytest.LogCaptureFixture) -> None:
    """The connection is closing already, which the server has not been told yet: no error."""
    app, ended = new_app(), asyncio.Event()
    app.config[http1.CLIENT_IDLE] = 5.0

    @app.get("/")
    async def leave(request: Request) -> None:
        stream = request.stream
        assert isinstance(stream, StrictHttp)
        assert request.transport is not None
        request.transport.close()
        try:
            await stream.answer(Promised(), b"the beginning", end=False)
        finally:
            ended.set()

    async with serving(app, protocol=StrictProtocol) as url:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        await ended.wait()
        await asyncio.sleep(0.05)

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []

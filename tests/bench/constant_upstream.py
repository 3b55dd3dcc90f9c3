"""An upstream that costs next to nothing: every request gets the same answer.

Argument: the port to listen on, on loopback. Runs until it is ended.
"""

import asyncio
import sys
from typing import cast

import httptools
import uvloop
from chat import ANSWER

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(ANSWER),
    ANSWER,
)


class Upstream(asyncio.Protocol):
    """One connection, kept alive."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._transport.write(RESPONSE)


async def main(port: str) -> None:
    """See the module."""
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", int(port))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))

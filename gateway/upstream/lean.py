"""The upstream transport in use: as little as is needed between the event loop and the gateway.

HTTP/1.1 over asyncio's transports, read by llhttp (httptools). Header fields, targets and bodies
are passed on byte for byte, both ways. A request is sent once: a connection that has seen its end,
or anything else, since its last answer is not used for it, and after its first byte nothing is
tried again, because the upstream may have seen it.

Certificates are verified against the system's authorities, or those in SSL_CERT_FILE.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterable, Mapping
from functools import partial

import aiohappyeyeballs
import httpx

from gateway.upstream.connection import Connection, Outgoing
from gateway.upstream.messages import InMemory, LightResponse
from gateway.upstream.pool import Pool, PoolLimits
from gateway.upstream.request_head import request_head

_NEXT_ADDRESS_AFTER_S = 0.25
"""RFC 8305 section 5: so long is an address tried alone."""

_KEPT_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, option), 60)
        for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL")
        if hasattr(socket, option)  # it is not everywhere
    ),
]
"""A provider may think for minutes; routers on the way forget connections that carry nothing."""


class LeanTransport(httpx.AsyncBaseTransport):
    """To be made while the event loop runs.

    Of a request's extensions it obeys `timeout` (connect, read, write and pool, in seconds: of
    silence, not of length) and `target` (bytes, in place of the URL's path and query). The `Host`
    is the URL's; framing and hop-by-hop fields are its own.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, limits: PoolLimits | None = None) -> None:
        self._tls = tls or ssl.create_default_context()
        self._tls.set_alpn_protocols(["http/1.1"])
        self._limits = limits or PoolLimits()
        self._loop = asyncio.get_running_loop()
        self._pools: dict[tuple[str, bytes], Pool] = {}

    @property
    def opened(self) -> int:
        """How many connections were ever opened."""
        return sum(pool.opened for pool in self._pools.values())

    @property
    def open(self) -> int:
        """How many connections there are, with those being opened."""
        return sum(pool.open for pool in self._pools.values())

    @property
    def idle(self) -> int:
        """How many of them are free."""
        return sum(pool.idle for pool in self._pools.values())

    @property
    def waiting(self) -> int:
        """How many requests wait for one."""
        return sum(pool.waiting for pool in self._pools.values())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return when the upstream's head is there. Raises httpx.TransportError."""
        timeout: Mapping[str, float | None] = request.extensions.get("timeout", {})
        host = request.url.netloc
        body = _body(request)
        body_length = len(body) if isinstance(body, bytes) else None
        head, length = request_head(request, host, body_length)
        pool = self._pools.get((request.url.scheme, host)) or self._new_pool(request.url)
        connection = pool.take() or await pool.acquire(timeout.get("connect"), timeout.get("pool"))
        answer = await connection.exchange(
            Outgoing(
                head,
                body,
                length,
                request.method == "HEAD",
                timeout.get("read"),
                timeout.get("write"),
            )
        )
        return LightResponse(answer.status, answer.headers, answer)

    async def aclose(self) -> None:
        """End every connection; what is under way ends in an error."""
        for pool in self._pools.values():
            pool.close()
        await asyncio.sleep(0)  # the event loop closes the sockets

    def _new_pool(self, url: httpx.URL) -> Pool:
        if url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol("An upstream's URL begins with http:// or https://.")
        tls = self._tls if url.scheme == "https" else None
        port = url.port or (443 if tls else 80)
        pool = Pool(partial(self._connect, url.host, port, tls), self._limits)
        self._pools[url.scheme, url.netloc] = pool
        return pool

    async def _connect(
        self, host: str, port: int, tls: ssl.SSLContext | None, pool: Pool, within_s: float | None
    ) -> Connection:
        """Raises httpx.ConnectTimeout and httpx.ConnectError: no address, no route, no trust."""
        try:
            async with asyncio.timeout(within_s):
                found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                plain = await aiohappyeyeballs.start_connection(
                    found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER_S, loop=self._loop
                )
                return await self._served(plain, tls, host, pool)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("No connection in time.") from error
        except (OSError, UnicodeError) as error:  # the latter for a name that cannot be one
            raise httpx.ConnectError(f"No connection: {error}") from error

    async def _served(
        self, plain: socket.socket, tls: ssl.SSLContext | None, host: str, pool: Pool
    ) -> Connection:
        """The loop owns the socket from here on, and closes it if this fails."""
        for level, option, value in _KEPT_ALIVE:
            plain.setsockopt(level, option, value)
        _, connection = await self._loop.create_connection(
            partial(Connection, self._loop, pool, plain.fileno()),
            sock=plain,
            ssl=tls,
            server_hostname=host if tls else None,
        )
        return connection


def _body(request: httpx.Request) -> bytes | AsyncIterable[bytes]:
    stream = request.stream
    if isinstance(stream, InMemory):
        return stream.content
    if isinstance(stream, httpx.ByteStream):
        return b"".join(stream)
    assert isinstance(stream, httpx.AsyncByteStream)
    return stream

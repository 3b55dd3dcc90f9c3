"""The other upstream transport, `UPSTREAM_TRANSPORT=aiohttp`, should the lean one ever fail.

Made of aiohttp, through httpx-aiohttp. It costs several times as much and has faults of its own:

- a target that ends in an empty query loses its `?`;
- values with bytes that are no UTF-8 are sent as other bytes;
- field names are sent in lower case, and repeated ones next to each other;
- broken chunks are noticed by the silence behind them only;
- an upstream that takes nothing of an upload is waited for without end;
- a connection that the upstream has closed is used until the event loop has seen that;
- failures to connect are called timeouts (but the cause is kept).
"""

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from yarl import URL

from gateway.upstream.headers import RawHeaders

_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_KEEPALIVE_S = 60
_SWITCHING_PROTOCOLS = 101
_sent: ContextVar[tuple[str, RawHeaders]] = ContextVar("sent")


class CompatibleTransport(AiohttpTransport):
    """To be made while the event loop runs. Obeys the same extensions as the lean transport."""

    def __init__(self) -> None:
        super().__init__(client=_session)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return when the upstream's head is there. Raises httpx.TransportError."""
        url = request.url
        target = request.extensions.get("target") or url.raw_path
        _sent.set((f"{url.scheme}://{(url.netloc + target).decode('ascii')}", request.headers.raw))
        if isinstance(request.stream, httpx.SyncByteStream):  # it is in memory
            request.read()
        try:
            response = await super().handle_async_request(request)
        except (aiohttp.ClientError, OSError) as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        if response.status_code == _SWITCHING_PROTOCOLS:
            await response.aclose()
            raise httpx.RemoteProtocolError("Another protocol was never asked for.")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Stream(
            response.stream, request.extensions.get("timeout", {}).get("read")
        )
        return response


class _Stream(httpx.AsyncByteStream):
    """Raises nothing but what httpx knows, and waits no longer than is allowed."""

    def __init__(self, stream: httpx.AsyncByteStream, read_s: float | None) -> None:
        self._stream = stream
        self._read_s = read_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._stream)
        while True:
            try:
                async with asyncio.timeout(self._read_s):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise httpx.ReadTimeout("The upstream is silent.") from error
            except (aiohttp.ClientError, OSError) as error:
                raise httpx.RemoteProtocolError(str(error)) from error
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _as_it_came(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """The driver would spell the target anew; another spelling may be another resource.

    The transport joins repeated fields, which is wrong for some, such as cookies.
    """
    target, headers = _sent.get()
    request.url = URL(target, encoded=True)
    if len({name.lower() for name, _ in headers}) < len(headers):
        fields = httpx.Headers(headers)
        for name in {name for name, _ in fields.multi_items()}:
            request.headers.popall(name, None)
            request.headers.extend((name, value) for value in fields.get_list(name))
    return await handler(request)


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_as_it_came,),
        skip_auto_headers=_AUTOMATIC,
        max_line_size=65_536,
        max_field_size=65_536,
    )

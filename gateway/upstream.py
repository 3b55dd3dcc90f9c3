"""Sending a request on, and header hygiene both ways.

Written against httpx's transport interface: its client layer costs more than all the rest. Bytes
are not touched: the target is sent as it came, bodies are streamed, encodings are not undone.
"""

from collections.abc import AsyncIterator
from contextvars import ContextVar

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from yarl import URL

from gateway.responses import SILENT, UNREACHABLE, Refusal
from gateway.settings import Settings, Upstream

RawHeaders = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110 section 7.6.1: these, and those that `Connection` names, go neither way."""

_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_KEEPALIVE_S = 60
_sent: ContextVar[tuple[str, RawHeaders]] = ContextVar("sent")


async def _as_it_came(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """The driver would spell the target anew; another spelling may be another resource.

    The transport joins repeated fields, which is wrong for some, such as cookies.
    """
    target, headers = _sent.get()
    request.url = URL(target, encoded=True)
    if len({name for name, _ in headers}) < len(headers):
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


def aiohttp_transport() -> httpx.AsyncBaseTransport:
    """The transport in use. To be made while the event loop runs."""
    return AiohttpTransport(client=_session)


class UpstreamClient:
    """Sends requests to upstreams over one transport. Timeouts are of silence, never of length."""

    def __init__(self, transport: httpx.AsyncBaseTransport, settings: Settings) -> None:
        self._transport = transport
        self._extensions = {
            "timeout": {
                "connect": settings.upstream_connect_timeout_s,
                "read": settings.upstream_idle_timeout_s,
            }
        }

    async def send(
        self,
        upstream: Upstream,
        method: str,
        target: str,
        headers: RawHeaders,
        body: bytes | AsyncIterator[bytes] | None,
    ) -> httpx.Response:
        """Return when the upstream's head is there. Raises Refusal: 502 unreachable, 504 silent.

        `target` is path and query, to be appended to the upstream's URL.
        """
        url = upstream.url + target
        _sent.set((url, headers))
        request = httpx.Request(
            method, url, headers=headers, content=body, extensions=self._extensions
        )
        async with failures(upstream.name):
            return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()


class failures:  # noqa: N801 - used in a with statement only; a generator would cost more
    """Turn what a transport raises into the answer that the client gets."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(
        self, _type: object, error: BaseException | None, _traceback: object
    ) -> None:
        if isinstance(error, httpx.TransportError | aiohttp.ClientError | OSError):
            cause = error.__cause__ or error
            if isinstance(cause, TimeoutError) or isinstance(error, httpx.ReadTimeout):
                raise Refusal(
                    SILENT, f"The upstream '{self._name}' did not answer in time."
                ) from error
            raise Refusal(UNREACHABLE, f"The upstream '{self._name}' cannot be reached.") from error


def end_to_end(headers: RawHeaders) -> RawHeaders:
    """The headers that an intermediary passes on, in their order."""
    named: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"connection":
            named.update(token.strip().lower() for token in value.split(b","))
    return [
        (name, value)
        for name, value in headers
        if (lower := name.lower()) not in HOP_BY_HOP and lower not in named
    ]

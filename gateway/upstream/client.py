"""Sending requests to upstreams over a transport, and what a client is told when that fails."""

from collections.abc import AsyncIterator

import httpx

from gateway.responses import SILENT, UNREACHABLE, Refusal
from gateway.settings import Settings, Upstream
from gateway.upstream.compatible import CompatibleTransport
from gateway.upstream.headers import RawHeaders
from gateway.upstream.lean import LeanTransport
from gateway.upstream.messages import InMemory, LightRequest


def new_transport(settings: Settings) -> httpx.AsyncBaseTransport:
    """The transport that the settings name. To be made while the event loop runs."""
    return LeanTransport() if settings.upstream_transport == "lean" else CompatibleTransport()


class UpstreamClient:
    """Sends requests to upstreams over one transport. Timeouts are of silence, never of length.

    Written against httpx's transport interface: its client layer costs more than all the rest.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, settings: Settings) -> None:
        self._transport = transport
        self._bases: dict[str, tuple[httpx.URL, bytes]] = {}
        self._timeout = {
            "connect": settings.upstream_connect_timeout_s,
            "pool": settings.upstream_connect_timeout_s,
            "read": settings.upstream_idle_timeout_s,
            "write": settings.upstream_idle_timeout_s,
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

        `target` is path and query, to be appended to the upstream's URL as they are.
        """
        url, path = self._bases.get(upstream.url) or self._base(upstream.url)
        request = LightRequest(
            method,
            url,
            headers,
            InMemory(body or b"") if body is None or isinstance(body, bytes) else _Pieces(body),
            {"timeout": self._timeout, "target": path + target.encode("ascii")},
        )
        with failures(upstream.name):
            return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    def _base(self, text: str) -> tuple[httpx.URL, bytes]:
        """Parsed once: it costs as much as the rest of a request."""
        url = httpx.URL(text)
        self._bases[text] = url, url.raw_path.rstrip(b"/")
        return self._bases[text]


class failures:  # noqa: N801 - used in a with statement only; a generator would cost more
    """Turn what a transport raises into the answer that the client gets."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None and isinstance(error, httpx.TransportError | OSError):
            cause = error.__cause__ or error
            if isinstance(cause, TimeoutError | httpx.TimeoutException):
                raise Refusal(
                    SILENT, f"The upstream '{self._name}' did not answer in time."
                ) from error
            raise Refusal(UNREACHABLE, f"The upstream '{self._name}' cannot be reached.") from error


class _Pieces(httpx.AsyncByteStream):
    """A body that is streamed."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

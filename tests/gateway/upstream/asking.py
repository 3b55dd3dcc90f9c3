"""Requests to an upstream over a transport, and transports with their known faults."""

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass

import httpx
import pytest

from gateway.upstream.compatible import CompatibleTransport
from gateway.upstream.headers import RawHeaders
from gateway.upstream.lean import LeanTransport

TLS = ssl.create_default_context()
"""Made once: to load the authorities takes a while."""
TRANSPORTS: dict[str, Callable[[], httpx.AsyncBaseTransport]] = {
    "lean": lambda: LeanTransport(TLS),
    "aiohttp": CompatibleTransport,
}
PATIENCE_S = 15.0
"""For what is to come; what is not to come is waited for much shorter."""


def faulty_over_aiohttp(reason: str) -> pytest.MarkDecorator:
    """The test has to fail over aiohttp, for this reason."""
    mark = pytest.mark.xfail(reason=reason, strict=True)
    return pytest.mark.parametrize(
        "kind", ["lean", pytest.param("aiohttp", marks=mark)], indirect=True
    )


only_lean = pytest.mark.parametrize("kind", ["lean"], indirect=True)


class Pieces(httpx.AsyncByteStream):
    """A body that is streamed."""

    def __init__(self, pieces: Iterable[bytes] | AsyncIterable[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if isinstance(self._pieces, AsyncIterable):
            async for piece in self._pieces:
                yield piece
        else:
            for piece in self._pieces:
                yield piece


@dataclass
class Ask:
    """Asks one upstream. Timeouts are in seconds."""

    transport: httpx.AsyncBaseTransport
    url: str
    read_s: float | None = PATIENCE_S
    write_s: float | None = PATIENCE_S
    connect_s: float | None = PATIENCE_S
    pool_s: float | None = PATIENCE_S

    async def __call__(
        self,
        method: str = "GET",
        target: bytes = b"/",
        headers: RawHeaders | None = None,
        body: bytes | Iterable[bytes] | AsyncIterable[bytes] = b"",
    ) -> httpx.Response:
        """Return when the head is there."""
        stream = httpx.ByteStream(body) if isinstance(body, bytes) else Pieces(body)
        timeout = {
            "connect": self.connect_s,
            "pool": self.pool_s,
            "read": self.read_s,
            "write": self.write_s,
        }
        request = httpx.Request(
            method,
            self.url,
            headers=headers or [],
            stream=stream,
            extensions={"target": target, "timeout": timeout},
        )
        return await self.transport.handle_async_request(request)

    async def whole(self, *args: object, **kwargs: object) -> tuple[int, RawHeaders, bytes]:
        """Status, fields and body of an answer, closed."""
        response = await self(*args, **kwargs)  # type: ignore[arg-type]  # the same as above
        return response.status_code, response.headers.raw, await body_of(response)


async def body_of(response: httpx.Response, got: list[bytes] | None = None) -> bytes:
    """All of it; the answer is closed. `got` takes the pieces as they come."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    got = [] if got is None else got
    try:
        async for piece in response.stream:
            got.append(piece)
        return b"".join(got)
    finally:
        await response.aclose()

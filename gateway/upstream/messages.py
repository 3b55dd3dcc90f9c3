"""Requests and responses for transports: httpx's own, without what transports do not look at.

httpx parses every field into three forms, and the URL anew, whether anybody asks for them or not.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import httpx

from gateway.upstream.headers import RawHeaders


class RawFields(httpx.Headers):
    """Fields as they came, parsed when somebody asks for one by its name. Not to be changed."""

    def __init__(self, raw: RawHeaders) -> None:
        self._raw = raw
        self._encoding = None

    @property
    def raw(self) -> RawHeaders:
        """The fields byte for byte."""
        return self._raw

    @cached_property
    def _list(self) -> list[tuple[bytes, bytes, bytes]]:  # type: ignore[override]
        return [(name, name.lower(), value) for name, value in self._raw]


class InMemory(httpx.ByteStream):
    """A body that is there."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.content = content


class LightRequest(httpx.Request):
    """What a transport needs to send."""

    def __init__(
        self,
        method: str,
        url: httpx.URL,
        headers: RawHeaders,
        stream: httpx.SyncByteStream | httpx.AsyncByteStream,
        extensions: Mapping[str, Any],
    ) -> None:
        self.method = method
        self.url = url
        self.headers = RawFields(headers)
        self.stream = stream
        self.extensions = extensions  # type: ignore[assignment]  # nobody changes them


class LightResponse(httpx.Response):
    """What a transport has received: closing it closes its stream, whose errors are httpx's."""

    stream: httpx.AsyncByteStream

    def __init__(self, status: int, headers: RawHeaders, stream: httpx.AsyncByteStream) -> None:
        self.status_code = status
        self.headers = RawFields(headers)
        self.stream = stream
        self.extensions = {}
        self.is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True
        await self.stream.aclose()

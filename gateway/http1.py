"""What a request has to be before it is one: HTTP/1.1 as RFC 9112 has it, for every route.

Sanic's parser is lenient: it takes folded lines, bare line feeds, digits of any alphabet, chunks
without their line ends. Two servers can see two different requests in such bytes, and a gateway
stands between two. So they are refused here, with the end of their connection, and what is taken
is passed on in one clear framing. Silent clients are let go here too.
"""

import asyncio
import re
from typing import Any

import structlog
from sanic import Request
from sanic.exceptions import (
    BadRequest,
    BadURL,
    ExpectationFailed,
    RequestCancelled,
    RequestTimeout,
)
from sanic.http import Http
from sanic.http.http1 import HTTP_CONTINUE
from sanic.response import BaseHTTPResponse
from sanic.server import HttpProtocol

CLIENT_IDLE = "CLIENT_IDLE_TIMEOUT"
"""The app's configuration of seconds for which a client may neither send nor take a byte."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD = re.compile(
    _TOKEN + rb" [!-~]+ HTTP/1\.[01](?:\r\n" + _TOKEN + rb":[\t -~\x80-\xff]*)*",
)
_NO_HEAD = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")
_LENGTH = re.compile(r"[0-9]{1,18}[ \t]*", re.ASCII)
_CHUNK_LINE = re.compile(rb"\r\n[0-9A-Fa-f]{1,15}(?:[ \t]*;[\t -~]*)?\r\n")
_LONGEST_CHUNK_LINE = 64

_UNREAD = "NONE"
"""The method of a request whose head could not be read."""

log = structlog.get_logger("ibex.gateway")


class Malformed(BadRequest):
    """Bytes that another server could read as another request. The message is for the client."""


class AnyTarget(Request):
    """A request whose target may be anything: the server would drop what it cannot parse."""

    def __init__(self, url_bytes: bytes, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(url_bytes, *args, **kwargs)
        except BadURL:
            super().__init__(b"*", *args, **kwargs)


class StrictHttp(Http):
    """One connection's requests, of which only unambiguous ones are handled."""

    async def http1_request_header(self) -> None:
        """Read a head. Raises Malformed, or ExpectationFailed for what nobody can promise."""
        if self.recv_buffer.startswith(b"\r\n"):
            del self.recv_buffer[:2]  # section 2.2: some send one after the body before
        await super().http1_request_header()  # type: ignore[no-untyped-call]
        request = self.request
        check_head(request)
        if request.version == "1.0":
            self.expecting_continue = False  # such a client knows no interim answers

    async def read(self) -> bytes | None:
        """The next piece of the body, None at its end. Raises Malformed."""
        if self._is_chunked and self.request_bytes_left == 0:
            if self.expecting_continue:
                self.expecting_continue = False
                await self._send(HTTP_CONTINUE)
            await self._check_chunk_line()
        return await super().read()

    @property
    def _is_chunked(self) -> bool:
        framing: object = self.request_body
        return framing == "chunked"

    async def _check_chunk_line(self) -> None:
        """The line end of what came before, a size in hexadecimal digits, perhaps extensions."""
        received = self.recv_buffer
        while (end := received.find(b"\r\n", 2)) < 0 and len(received) < _LONGEST_CHUNK_LINE:
            await self._receive_more()
        if not _CHUNK_LINE.fullmatch(received, 0, end + 2):
            self.keep_alive = False
            raise Malformed("A chunk of the request body has no valid size.")

    def respond(self, response: BaseHTTPResponse) -> BaseHTTPResponse:
        """Answer. A client that still waits with its body need not send it any more.

        A method's name is case-sensitive: the answer to `Head` has a body.
        """
        method = self.request.method
        self.head_only = self.head_only and (
            method == "HEAD" or (method == _UNREAD and self.recv_buffer.startswith(b"HEAD "))
        )
        if self.expecting_continue:
            self.expecting_continue = False
            self.keep_alive = False
            self.request_body = None
        return super().respond(response)

    async def head_response_ignored(  # type: ignore[override]  # what is awaited has to be
        self,
        data: bytes,
        end_stream: bool,  # noqa: FBT001 - Sanic's own signature
    ) -> None:
        """Drop what would be the body of an answer to HEAD."""
        super().head_response_ignored(data, end_stream)


def check_head(request: Request) -> None:
    """RFC 9112 sections 2 to 6, as far as Sanic lets anything else through."""
    headers = request.headers
    if not _HEAD.fullmatch(request.head):
        raise Malformed("The request line or a header field has what HTTP forbids there.")
    hosts = len(headers.getall("host", ()))
    if hosts > 1 or (hosts == 0 and request.version == "1.1"):
        raise Malformed("A request has exactly one Host field.")
    if "transfer-encoding" in headers and request.version == "1.0":
        raise Malformed("HTTP/1.0 has no Transfer-Encoding.")
    length = headers.getone("content-length", None)
    if length is not None and not _LENGTH.fullmatch(length):
        raise Malformed("Content-Length is a number of bytes in decimal digits.")
    expected = headers.getone("expect", None)
    if expected is not None and expected.strip().lower() != "100-continue":
        raise ExpectationFailed("No other expectation than 100-continue is met here.")


class StrictProtocol(HttpProtocol):
    """A connection that ends when its client neither sends nor takes anything for too long."""

    HTTP_CLASS = StrictHttp
    __slots__ = ()

    async def receive_more(self) -> None:
        """Wait for more. Raises RequestTimeout within a body, Malformed within a head."""
        if not self._http:
            if _NO_HEAD.search(self.recv_buffer):
                raise Malformed("The head has bytes that HTTP forbids there.")
            await super().receive_more()  # type: ignore[no-untyped-call]
            return
        try:
            async with asyncio.timeout(self.app.config[CLIENT_IDLE]):
                await super().receive_more()  # type: ignore[no-untyped-call]
        except TimeoutError:
            self._http.keep_alive = False
            self._http.request_body = None
            raise RequestTimeout("The rest of the request body did not come.") from None

    async def send(self, data: bytes) -> None:
        """Write as soon as there is room. Raises RequestCancelled where the client is gone."""
        if not self._can_write.is_set():
            await self._until_there_is_room()
        await super().send(data)  # type: ignore[no-untyped-call]

    async def _until_there_is_room(self) -> None:
        try:
            async with asyncio.timeout(self.app.config[CLIENT_IDLE]):
                await self._can_write.wait()
        except TimeoutError:
            log.warning("a client does not read its answer: connection closed")
            raise RequestCancelled from None

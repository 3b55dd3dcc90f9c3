"""What a request has to be before it is one: HTTP/1.1 as RFC 9112 has it, for every route.

Sanic's parser is lenient: it takes folded lines, bare line feeds, digits of any alphabet, chunks
without their line ends. Two servers can see two different requests in such bytes, and a gateway
stands between two. So they are refused here, with the end of their connection, and what is taken
is passed on in one clear framing. Silent clients are let go here too.
"""

import asyncio
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import cache
from time import monotonic

import structlog
from sanic.exceptions import RequestCancelled, RequestTimeout
from sanic.headers import format_http1_response
from sanic.http import Http, Stage
from sanic.http.http1 import HTTP_CONTINUE
from sanic.response import BaseHTTPResponse
from sanic.server import HttpProtocol

from gateway.http1_head import CHUNKED, Malformed, OrdinaryHead, check_head, ordinary_head

CLIENT_IDLE = "CLIENT_IDLE_TIMEOUT"
"""The app's configuration of seconds for which a client may neither send nor take a byte."""

HANDLER = "handler"
"""What the app's context may have: handles each request, in place of the app itself."""

_NO_HEAD = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")
_CHUNK_LINE = re.compile(rb"\r\n[0-9A-Fa-f]{1,15}(?:[ \t]*;[\t -~]*)?\r\n")
_LONGEST_CHUNK_LINE = 64
_READ_AHEAD = 65_536

_NOT_MODIFIED = 304
NO_BODY = frozenset({204, _NOT_MODIFIED})
"""Statuses of answers that end with their head (RFC 9112 section 6.3)."""

_UNREAD = "NONE"
"""The method of a request whose head could not be read."""

log = structlog.get_logger("ibex.gateway")


class Verbatim(BaseHTTPResponse):
    """A response whose fields are sent as they are; only the framing is the server's.

    `length` is that of its body in bytes, None where it ends when it ends.
    """

    length: int | None = None

    @abstractmethod
    def lines(self) -> bytes:
        """The fields, each with its line end. No value may hold a line end of its own."""


class StrictHttp(Http):
    """One connection's requests, of which only unambiguous ones are handled."""

    protocol: "StrictProtocol"

    async def http1_request_header(self) -> None:
        """Read a head. Raises Malformed, or ExpectationFailed for what nobody can promise."""
        received = self.recv_buffer
        if received.startswith(b"\r\n"):
            del received[:2]  # section 2.2: some send one after the body before
        end = received.find(b"\r\n\r\n", 0, self.HEADER_MAX_SIZE)
        head = ordinary_head(bytes(received[:end])) if end > 0 else None
        if head is not None:
            self._take(head)
            return
        await super().http1_request_header()  # type: ignore[no-untyped-call]
        request = self.request
        check_head(request)
        if request.version == "1.0":
            self.expecting_continue = False  # such a client knows no interim answers

    def _take(self, head: OrdinaryHead) -> None:
        """Begin with the request whose head is in front of what was received."""
        protocol = self.protocol
        self.keep_alive = head.keep_alive and protocol.app.config["KEEP_ALIVE"]
        self.head_only = head.method.upper() == "HEAD"
        self.url = head.target
        self.request = protocol.request_class(
            head.target.encode("ascii"),
            head.fields,  # type: ignore[arg-type]  # it copies them into its own
            "1.1",
            head.method,
            protocol.transport,  # type: ignore[arg-type]  # it is connected
            protocol.app,
            head.raw,
        )
        self.request.stream = self
        self.request_bytes_left = self.request_bytes = head.length
        self.request_body = head.framing  # type: ignore[assignment]  # the server's own signs
        # The body's reader looks for a line end in front of each chunk.
        del self.recv_buffer[: len(head.raw) + (2 if head.framing == CHUNKED else 4)]
        protocol.state["requests_count"] += 1

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
        return framing == CHUNKED

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

    async def error_response(self, exception: Exception) -> None:
        """Answer a request that ended in an exception; nobody, where the client is gone."""
        if isinstance(exception, RequestCancelled):
            self.keep_alive = False
            self.request_body = None
        else:
            await super().error_response(exception)

    async def answer(self, response: Verbatim, data: bytes, *, end: bool) -> None:
        """Begin to answer, with what there is of the body by now."""
        self.respond(response)
        await self.http1_response_header(data, end)

    def pass_on(self, data: bytes, *, end: bool) -> Awaitable[None]:
        """Send more of the body. `end`: it is whole."""
        write: Callable[[bytes, bool], Awaitable[None]] | None = self.response_func
        return _dropped() if write is None else write(data, end)

    def event_sent(self, data: bytes) -> bool:
        """Send more of a body that is sent in chunks, if that needs no waiting."""
        return bool(data) and self.protocol.sent_at_once(b"%x\r\n%b\r\n" % (len(data), data))

    async def http1_response_header(
        self,
        data: bytes,
        end_stream: bool,  # noqa: FBT001 - Sanic's own signature
    ) -> None:
        """Send the head of a response, with what there is of its body."""
        response = self.response
        if not isinstance(response, Verbatim):
            await super().http1_response_header(data, end_stream)
            return
        if response.body:
            data, end_stream = response.body, True
        has_no_body = response.status in NO_BODY
        end_stream = end_stream or has_no_body
        framing, data = self._framed(response, b"" if has_no_body else data, end=end_stream)
        if self.head_only:
            data, self.response_func = b"", self.head_response_ignored
        await self._send(
            b"%b%b%bconnection: %b\r\n\r\n%b"
            % (
                _status_line(response.status),
                response.lines(),
                framing,
                b"keep-alive" if self.keep_alive else b"close",
                data,
            )
        )
        self.stage = Stage.IDLE if end_stream else Stage.RESPONSE

    def _framed(self, response: Verbatim, data: bytes, *, end: bool) -> tuple[bytes, bytes]:
        """How the end of the body is told, and its beginning in that form (RFC 9112 section 6)."""
        self.response_func = None  # type: ignore[assignment]  # the server's way to say: no more
        length = response.length
        if response.status in NO_BODY:
            if response.status == _NOT_MODIFIED and length is not None:
                return b"content-length: %d\r\n" % length, data
            return b"", data
        if end and not (self.head_only and length is not None):
            length = len(data)
        elif length is not None:
            self.response_bytes_left = length - len(data)
            self.response_func = self.http1_response_normal
        else:
            self.response_func = self.http1_response_chunked
            chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            return b"transfer-encoding: chunked\r\n", chunk
        return b"content-length: %d\r\n" % length, data

    async def head_response_ignored(  # type: ignore[override]  # what is awaited has to be
        self,
        data: bytes,
        end_stream: bool,  # noqa: FBT001 - Sanic's own signature
    ) -> None:
        """Drop what would be the body of an answer to HEAD."""
        super().head_response_ignored(data, end_stream)


async def _dropped() -> None:
    """There is no body, whatever the upstream may have."""


@cache
def _status_line(status: int) -> bytes:
    return format_http1_response(status, ()).removesuffix(b"\r\n")


class StrictProtocol(HttpProtocol):
    """A connection that ends when its client neither sends nor takes anything for too long."""

    HTTP_CLASS = StrictHttp
    __slots__ = ()

    def _setup(self) -> None:
        super()._setup()  # type: ignore[no-untyped-call]
        self.request_handler = getattr(self.app.ctx, HANDLER, self.request_handler)

    def data_received(self, data: bytes) -> None:
        if not self._is_due:
            self._time = monotonic()
        self.recv_buffer += data
        if len(self.recv_buffer) >= _READ_AHEAD and self.transport:
            self.transport.pause_reading()
        self._data_received.set()

    @property
    def _is_due(self) -> bool:
        """A head that has begun, or a body that nobody wants: a byte gains no time for them."""
        http: StrictHttp | None = self.http
        if http is None or http.stage in (Stage.HANDLER, Stage.RESPONSE):
            return False
        return http.stage is Stage.REQUEST or bool(http.request_body)

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
        if not self.sent_at_once(data):
            raise RequestCancelled

    def sent_at_once(self, data: bytes) -> bool:
        """Write if there is room, and somebody to take it."""
        transport = self.transport
        if transport is None or transport.is_closing() or not self._can_write.is_set():
            return False
        transport.write(data)
        self._time = monotonic()
        return True

    async def _until_there_is_room(self) -> None:
        try:
            async with asyncio.timeout(self.app.config[CLIENT_IDLE]):
                await self._can_write.wait()
        except TimeoutError:
            log.warning("a client does not read its answer: connection closed")
            raise RequestCancelled from None

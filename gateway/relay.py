"""An upstream's answer as the client gets it: its status, its headers, and what we add."""

from collections.abc import Iterator

import httpx
from sanic import Request
from sanic.compat import Header as SanicHeaders
from sanic.response import BaseHTTPResponse

from gateway.rate_headers import is_family_header, rate_headers
from gateway.redact import Redactor
from gateway.responses import REQUEST_ID_HEADERS, Refusal, broken_off, new_request_id
from gateway.settings import Dialect
from gateway.upstream import RawHeaders, end_to_end
from lua.decision import Decision

_NO_BODY = frozenset({204, 304})
EVENT_STREAM = "text/event-stream"
_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r", b"\n\r")


class Relayed(BaseHTTPResponse):
    """A response whose head is sent byte for byte; only the framing is the server's."""

    def __init__(self, status: int, headers: RawHeaders) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.status = status
        self.body = None
        self.content_type = None
        self.headers = SanicHeaders()
        self._raw = headers
        if status not in _NO_BODY:
            self._leave_length_to_the_server()

    def _leave_length_to_the_server(self) -> None:
        for header in self._raw:
            if header[0].lower() == b"content-length":
                self.headers["content-length"] = header[1].decode("ascii")
                self._raw.remove(header)
                return

    @property
    def is_stream(self) -> bool:
        """A body of unknown length follows."""
        return self.status not in _NO_BODY and "content-length" not in self.headers

    @property
    def processed_headers(self) -> Iterator[tuple[bytes, bytes]]:
        """The head, as the server asks for it."""
        yield from self._raw
        for name, value in self.headers.items():
            yield name.encode("ascii"), str(value).encode("ascii")


class Delivery:
    """One answer on its way to the client. `begun`: its head is sent, so it can be no other.

    `is_live`: it is a stream of events, to be seen as they come.
    """

    __slots__ = ("_head", "_last", "_redactor", "_request", "begun", "is_live")

    def __init__(
        self, request: Request, head: Relayed, redactor: Redactor, *, has_events: bool
    ) -> None:
        self._request = request
        self._head = head
        self._redactor = redactor
        self._last = b""
        self.is_live = has_events and head.is_stream and request.method != "HEAD"
        self.begun = False

    async def begin(self) -> None:
        """Send the head before there is anything to send behind it."""
        await self._write(b"", end=False)

    async def send(self, piece: bytes) -> None:
        """Pass on what may be seen of the body by now."""
        if out := self._redactor.feed(piece):
            await self._write(out, end=False)

    async def end(self, piece: bytes) -> None:
        """Pass on the rest: the answer is whole."""
        if self._head.is_stream and self._request.method == "HEAD":
            await self.begin()  # otherwise a length of 0 would be made up
        await self._write(self._redactor.feed(piece) + self._redactor.finish(), end=True)

    async def break_off(self, refusal: Refusal, dialect: str) -> None:
        """End the connection within the answer, so that nobody takes it for whole.

        A stream says why, as its provider would, if the client is not within an event.
        """
        if self.is_live and (not self._last or self._last.endswith(_BLANK_LINES)):
            await self._write(broken_off(refusal, dialect), end=False)
        self._request.transport.close()
        # Otherwise the server would report, as an error, that a stated length was not reached.
        self._request.stream.response_func = None  # type: ignore[union-attr]

    async def _write(self, out: bytes, *, end: bool) -> None:
        if not self.begun:
            self.begun = True
            await self._request.respond(self._head)
        if self.is_live:
            self._last = (self._last + out)[-3:]
        await self._head.send(out, end_stream=end)


def has_events(answer: httpx.Response) -> bool:
    """Whether the body is server-sent events, in no encoding."""
    headers = answer.headers
    media_type: str = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == EVENT_STREAM and "content-encoding" not in headers


def relayed_headers(
    answer: httpx.Response, decision: Decision, dialect: Dialect, *, keep_length: bool
) -> RawHeaders:
    """The upstream's headers end to end, then ours; a field that the upstream has sent stays its.

    Providers state their own limits in their own fields: ours are added only where they do not.
    """
    headers = end_to_end(answer.headers.raw)
    if not keep_length or answer.status_code == 204:  # noqa: PLR2004 - No Content has no length
        headers = [header for header in headers if header[0].lower() != b"content-length"]
    names = {name.lower().decode("latin-1") for name, _ in headers}
    has_family = any(is_family_header(name, dialect) for name in names)
    ours = [
        (name, value)
        for name, value in rate_headers(decision, dialect)
        if not (has_family and is_family_header(name, dialect))
    ]
    if EVENT_STREAM in answer.headers.get("content-type", "") and "x-accel-buffering" not in names:
        ours.append(("X-Accel-Buffering", "no"))  # nginx in front would hold events back
    if decision.is_open:
        ours.append(("Ibex-Limiter", "open"))
    if REQUEST_ID_HEADERS[dialect] not in names:
        ours.append((REQUEST_ID_HEADERS[dialect], new_request_id()))
    return headers + [(name.encode("ascii"), value.encode("ascii")) for name, value in ours]

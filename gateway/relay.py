"""An upstream's answer as the client gets it: its status, its headers, and what we add."""

from typing import NamedTuple, Self

import httpx
from sanic import Request

from gateway.http1 import NO_BODY, StrictHttp, Verbatim
from gateway.rate_headers import is_family_header, rate_headers
from gateway.redact import Redactor
from gateway.responses import REQUEST_ID_HEADERS, Refusal, broken_off, new_request_id
from gateway.settings import Dialect
from gateway.upstream import HOP_BY_HOP, RawHeaders
from lua.decision import Decision

EVENT_STREAM = "text/event-stream"
_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r", b"\n\r")


class Fields(NamedTuple):
    """The upstream's fields that go end to end, and what they say. `names` are in lower case.

    `length` is left out of `raw`.
    """

    raw: RawHeaders
    names: set[bytes]
    length: bytes | None
    content_type: str
    content_encoding: str

    @classmethod
    def of(cls, answer: httpx.Response) -> Self:
        """Read them, once."""
        kept: RawHeaders = []
        told: dict[bytes, bytes] = {}
        named: set[bytes] = set()
        for field in answer.headers.raw:
            name, value = field[0].lower(), field[1]
            if name in HOP_BY_HOP:
                if name == b"connection":
                    named.update(token.strip().lower() for token in value.split(b","))
                continue
            told[name] = b"%b, %b" % (told[name], value) if name in told else value
            if name != b"content-length":
                kept.append(field)
        for name in named:
            told.pop(name, None)
        return cls(
            [field for field in kept if field[0].lower() in told] if named else kept,
            set(told),
            told.get(b"content-length"),
            told.get(b"content-type", b"").decode("latin-1"),
            told.get(b"content-encoding", b"").decode("latin-1"),
        )

    def request_id(self, dialect: Dialect) -> str:
        """The upstream's own id of this request, or one of ours where it has sent none."""
        wanted = REQUEST_ID_HEADERS[dialect].encode()
        if wanted not in self.names:
            return new_request_id()
        values = (value for name, value in self.raw if name.lower() == wanted)
        return next(values).decode("latin-1")

    @property
    def has_events(self) -> bool:
        """Whether the body is server-sent events, in no encoding."""
        media_type = self.content_type.partition(";")[0].strip().lower()
        return media_type == EVENT_STREAM and b"content-encoding" not in self.names


class Relayed(Verbatim):
    """An upstream's answer: its head is sent byte for byte, but for what is added."""

    def __init__(self, status: int, raw: RawHeaders, ours: bytes, length: bytes | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.status = status
        self._raw = raw
        self._ours = ours
        self.length = None if length is None else int(length)

    def lines(self) -> bytes:
        """The fields, each with its line end."""
        return b"".join([b"%b: %b\r\n" % field for field in self._raw]) + self._ours

    @property
    def is_stream(self) -> bool:
        """A body of unknown length follows."""
        return self.length is None and self.status not in NO_BODY


class Delivery:
    """One answer on its way to the client. `begun`: its head is sent, so it can be no other.

    `is_live`: it is a stream of events, to be seen as they come.
    """

    __slots__ = ("_head", "_http", "_last", "_redactor", "_request", "begun", "is_live")

    def __init__(
        self, request: Request, head: Relayed, redactor: Redactor, *, has_events: bool
    ) -> None:
        assert isinstance(request.stream, StrictHttp)
        self._request = request
        self._http = request.stream
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
        if self.is_live:
            self._last = (self._last + out[-3:])[-3:]
        if not self.begun:
            self.begun = True
            await self._http.answer(self._head, out, end=end)
        elif end or not (self.is_live and self._http.event_sent(out)):
            await self._http.pass_on(out, end=end)


def own_lines(fields: Fields, decision: Decision, dialect: Dialect, request_id: str) -> bytes:
    """The fields that we add, each with its line end; one that the upstream has sent stays its.

    Providers state their own limits in their own fields: ours are added only where they do not.
    """
    has_family = any(is_family_header(name, dialect) for name in fields.names)
    ours = rate_headers(decision, dialect, with_family=not has_family)
    if EVENT_STREAM in fields.content_type and b"x-accel-buffering" not in fields.names:
        ours.append(("X-Accel-Buffering", "no"))  # nginx in front would hold events back
    if decision.is_open:
        ours.append(("Ibex-Limiter", "open"))
    name = REQUEST_ID_HEADERS[dialect]
    if name.encode() not in fields.names:
        ours.append((name, request_id))
    return "".join([f"{name}: {value}\r\n" for name, value in ours]).encode("ascii")

"""Any answer, cut anywhere, is the same answer; any request is what another reader reads."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import h11
import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.upstream.connection import Connection, Outgoing
from gateway.upstream.framing import Framing
from gateway.upstream.headers import RawHeaders
from gateway.upstream.request_head import request_head

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
FRAMING = {b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"host", b"expect",
           b"keep-alive", b"proxy-connection", b"te", b"trailer", b"proxy-authenticate",
           b"proxy-authorization"}  # fmt: skip

names = (
    st.text(TOKEN, min_size=1, max_size=20)
    .map(str.encode)
    .filter(lambda name: name.lower() not in FRAMING)
)
values = st.binary(max_size=30).map(
    lambda value: bytes(b for b in value if b > 0x1F and b != 0x7F).strip(b" \t")
)
fields = st.lists(st.tuples(names, values), max_size=8)
pieces = st.lists(st.binary(min_size=1, max_size=300), max_size=6)
INTERIM = [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: <x>\r\n\r\n"]


class MemoryTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """There is nothing to pause."""

    resume_reading = abort = pause_reading


class Owned:
    """Counts what became of a connection."""

    def __init__(self) -> None:
        self.released = self.closed = 0

    def release(self, _connection: Connection) -> None:
        self.released += 1

    def lost(self, _connection: Connection) -> None:
        self.closed += 1


class Exchanged:
    """One answer as it was read from these cuts."""

    def __init__(self, cuts: Iterator[bytes], *, is_head: bool, is_ended: bool) -> None:
        self.owner = Owned()
        self.pieces: list[bytes] = []
        self.error: Exception | None = None
        try:
            self.got = asyncio.run(self._run(cuts, is_head, is_ended))
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:
            self.error = error

    async def _run(
        self, cuts: Iterator[bytes], is_head: bool, is_ended: bool
    ) -> tuple[int, RawHeaders, bytes]:
        connection = Connection(asyncio.get_running_loop(), self.owner, 0)
        connection.connection_made(MemoryTransport())
        outgoing = Outgoing(b"GET / HTTP/1.1\r\n\r\n", b"", 0, is_head, None, None)
        exchange = asyncio.create_task(connection.exchange(outgoing))
        await asyncio.sleep(0)
        for cut in cuts:
            connection.data_received(cut)
        if is_ended:
            connection.eof_received()
        answer = await exchange
        async for piece in answer:
            self.pieces.append(piece)
        return answer.status, answer.headers, b"".join(self.pieces)


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, bool, bool, tuple[int, RawHeaders, bytes]]:
    """Bytes, whether it answers HEAD, whether its end is the connection's, and what it means."""
    status = draw(st.sampled_from([200, 201, 204, 304, 400, 429, 500, 599]))
    head_fields = draw(fields)
    body_pieces = draw(pieces)
    body = b"".join(body_pieces)
    framing = draw(st.sampled_from(["length", "chunks", "close"]))
    is_head = draw(st.booleans())
    has_body = not is_head and status not in (204, 304)
    if framing == "length":
        head_fields = [*head_fields, (b"Content-Length", b"%d" % len(body))]
        sent = body
    elif framing == "chunks":
        head_fields = [(b"transfer-encoding", b"Chunked"), *head_fields]
        sent = b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in body_pieces)
        sent += b"0\r\n" + draw(st.sampled_from([b"", b"X-Sum: 1\r\n"])) + b"\r\n"
    else:
        sent = body
    lines = b"".join(b"%b: %b \r\n" % field for field in head_fields)
    head = b"HTTP/1.1 %d What\r\n%b\r\n" % (status, lines)
    stream = draw(st.sampled_from(INTERIM)) + head + (sent if has_body else b"")
    meaning = (status, head_fields, body if has_body else b"")
    return stream, is_head, framing == "close" and has_body, meaning


@settings(max_examples=150, deadline=None)
@given(answers(), st.lists(st.integers(1, 2000), max_size=12), st.booleans())
def test_an_answer_is_the_same_wherever_it_is_cut(
    answer: tuple[bytes, bool, bool, tuple[int, RawHeaders, bytes]],
    places: list[int],
    bytewise: bool,
) -> None:
    """Also byte by byte: status, fields, body, and whether its connection can be used again."""
    stream, is_head, is_ended, meaning = answer
    ends = range(1, len(stream)) if bytewise else sorted(place % len(stream) for place in places)
    edges = [0, *ends, len(stream)]
    cuts = (stream[a:b] for a, b in pairwise(edges) if a < b)
    cut = Exchanged(cuts, is_head=is_head, is_ended=is_ended)
    assert cut.got == meaning
    whole = Exchanged(iter([stream]), is_head=is_head, is_ended=is_ended)
    assert whole.got == meaning
    assert (whole.owner.released, whole.owner.closed) == (cut.owner.released, cut.owner.closed)
    assert cut.owner.released + cut.owner.closed == 1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_an_answer_that_ends_too_early_is_never_whole(data: st.DataObject) -> None:
    """Wherever it breaks off, there is an error, after whatever of the body came before."""
    stream, is_head, _, meaning = data.draw(answers().filter(lambda answer: not answer[2]))
    broken = stream[: data.draw(st.integers(0, len(stream) - 1))]
    read = Exchanged(iter([broken] if broken else []), is_head=is_head, is_ended=True)
    assert isinstance(read.error, httpx.RemoteProtocolError)
    got = b"".join(read.pieces)
    assert meaning[2].startswith(got)
    if (b"Content-Length", b"%d" % len(meaning[2])) in meaning[1] and got:
        assert broken.endswith(got)
        assert len(stream) - len(broken) == len(meaning[2]) - len(got)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n"]))
def test_any_bytes_are_an_answer_or_an_error(noise: bytes, begun: bytes) -> None:
    """Nothing else is raised, and nothing hangs."""
    read = Exchanged(iter([begun + noise, b"x"]), is_head=False, is_ended=True)
    assert read.error is not None or 200 <= read.got[0] <= 999
    assert read.owner.released + read.owner.closed == 1


def test_what_came_before_a_failure_is_given_first() -> None:
    """The reader may be late: it gets the bytes, then the error."""
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"
    read = Exchanged(iter([begun]), is_head=False, is_ended=True)
    assert (read.pieces, str(read.error)) == (
        [b"hello"],
        "The connection was closed before the end.",
    )


targets = st.text("".join(chr(code) for code in range(0x21, 0x7F)), min_size=0, max_size=60).map(
    lambda text: b"/" + text.encode()
)
bodies: st.SearchStrategy[Any] = st.one_of(st.binary(max_size=500), pieces)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    targets, fields, bodies, st.booleans(),
)  # fmt: skip
def test_a_request_is_read_as_it_was_meant(
    method: str, target: bytes, headers: RawHeaders, body: bytes | list[bytes], stated: bool
) -> None:
    """Another reader finds method, target, fields, body, one end, and nothing behind it."""
    content = body if isinstance(body, bytes) else b"".join(body)
    if stated:
        headers = [*headers, (b"Content-Length", b"%d" % len(content))]
    request = httpx.Request(
        method, "http://upstream.test", headers=headers, stream=httpx.ByteStream(b""),
        extensions={"target": target},
    )  # fmt: skip
    known = len(body) if isinstance(body, bytes) else None
    head, length = request_head(request, b"upstream.test", known)
    if isinstance(body, bytes):
        sent = head + body
    else:
        framing = Framing(length)
        sent = head + b"".join(b"".join(framing.framed(piece)) for piece in body) + framing.end()
    read = h11.Connection(h11.SERVER)
    read.receive_data(sent)
    found = read.next_event()
    assert isinstance(found, h11.Request)
    assert (found.method, found.target) == (method.encode(), target)
    assert [field for field in found.headers.raw_items() if field[0].lower() not in FRAMING] == [
        field for field in headers if field[0].lower() not in FRAMING
    ]
    got = b""
    while not isinstance(event := read.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Data)
        got += event.data
    assert got == content
    assert read.trailing_data == (b"", False)

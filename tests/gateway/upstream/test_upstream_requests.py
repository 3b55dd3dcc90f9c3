"""What is sent: the caller's bytes, and framing that leaves no doubt."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from asking import Ask, body_of, faulty_over_aiohttp, only_lean
from raw_upstream import Peer, RawUpstream

from gateway.upstream.headers import RawHeaders

TARGETS = [
    b"/",
    b"/v1/models",
    b"/v1/a%20b/%2F/%7Eme/%ff?x=%20&x=c&=&y",
    b"/v1//double//",
    b"/v1/x;v=1,2'()!*$&@=:",
    b'/v1/{id}|"<>`^',
    b"/v1/x?next=/../y&q=a\\b",
    b"//evil.test/x",
    b"/@evil.test/x",
    b"/" + b"long/" * 2000,
]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_target_is_sent_as_it_is(ask: Ask, wire: RawUpstream, target: bytes) -> None:
    """Escapes, doubled slashes and odd characters are nobody's to mend."""
    assert (await ask.whole("GET", target))[0] == 200
    assert [received.target for received in wire.requests] == [target]


@faulty_over_aiohttp("its URL type drops the question mark")
async def test_an_empty_query_is_sent(ask: Ask, wire: RawUpstream) -> None:
    """`/x?` is not `/x`."""
    await ask.whole("GET", b"/v1/models?")
    assert wire.requests[0].target == b"/v1/models?"


async def test_the_host_is_the_urls(ask: Ask, wire: RawUpstream) -> None:
    """Whatever a target says."""
    await ask.whole("GET", b"//evil.test/x")
    assert wire.requests[0].values(b"host") == [wire.url.removeprefix("http://").encode()]


FIELDS = [
    (b"anthropic-beta", b"one"),
    (b"x-empty", b""),
    (b"anthropic-beta", b"two, three"),
    (b"cookie", b"a=1"),
    (b"x-tab", b"a\tb"),
    (b"cookie", b"b=2"),
    (b"x-utf", "é".encode()),
    (b"user-agent", b"Test/1.0 (x; y)"),
]


async def test_fields_are_sent_with_their_repeats(ask: Ask, wire: RawUpstream) -> None:
    """Nothing is added to them, and those of one name stay apart and in their order."""
    await ask.whole("GET", b"/", FIELDS)
    sent = wire.requests[0]
    assert {name for name, _ in sent.headers} == {b"host", *(name for name, _ in FIELDS)}
    for name, _ in FIELDS:
        assert sent.values(name) == [value for found, value in FIELDS if found == name]


@faulty_over_aiohttp("it groups repeated fields")
async def test_fields_are_sent_in_their_order(ask: Ask, wire: RawUpstream) -> None:
    """Also with others between two of one name."""
    await ask.whole("GET", b"/", FIELDS)
    assert [field for field in wire.requests[0].headers if field[0] != b"host"] == FIELDS


@faulty_over_aiohttp("httpx-aiohttp lowers names")
async def test_names_keep_their_case(ask: Ask, wire: RawUpstream) -> None:
    """Some upstream may look for it."""
    await ask.whole("GET", b"/", [(b"X-Odd-CASE", b"1")])
    assert b"X-Odd-CASE: 1" in wire.requests[0].head


@faulty_over_aiohttp("it sends text, encoded as UTF-8")
async def test_bytes_beyond_ascii_are_sent_as_they_are(ask: Ask, wire: RawUpstream) -> None:
    """Latin-1 and what is nothing at all (RFC 9110 section 5.5: obs-text)."""
    await ask.whole("GET", b"/", [(b"x-latin", b"n\xe9\xff\x80")])
    assert wire.requests[0].values(b"x-latin") == [b"n\xe9\xff\x80"]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("size", [1, 70_000, 900_000])
async def test_a_body_in_memory_has_its_length(
    ask: Ask, wire: RawUpstream, method: str, size: int
) -> None:
    """Small or large."""
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert (await ask.whole(method, body=body))[0] == 200
    (received,) = wire.requests
    assert received.body == body
    assert received.values(b"content-length") == [b"%d" % size]
    assert received.values(b"transfer-encoding") == []


@pytest.mark.parametrize(
    ("method", "lengths"), [("GET", []), ("HEAD", []), ("POST", [b"0"]), ("PUT", [b"0"])]
)
async def test_no_body_is_framed_as_the_method_wants(
    ask: Ask, wire: RawUpstream, method: str, lengths: list[bytes]
) -> None:
    """RFC 9110 section 8.6: where a body is expected, its absence is said."""
    await ask.whole(method)
    assert wire.requests[0].values(b"content-length") == lengths
    assert wire.requests[0].values(b"transfer-encoding") == []


async def test_a_streamed_body_is_sent_in_chunks(ask: Ask, wire: RawUpstream) -> None:
    """An empty piece is no end."""
    pieces = [b"one", b"", b"two" * 50_000, b"\r\n0\r\n\r\n", b""]
    await ask.whole("POST", body=pieces)
    (received,) = wire.requests
    assert received.body == b"".join(pieces)
    assert received.values(b"transfer-encoding") == [b"chunked"]
    assert received.values(b"content-length") == []


@pytest.mark.parametrize("pieces", [[], [b""]])
async def test_an_empty_streamed_body_ends(
    ask: Ask, wire: RawUpstream, pieces: list[bytes]
) -> None:
    """The last chunk alone."""
    assert (await ask.whole("POST", body=pieces))[0] == 200
    assert wire.requests[0].body == b""


async def test_a_streamed_body_has_the_length_that_is_stated(ask: Ask, wire: RawUpstream) -> None:
    """Then it is sent without chunks."""
    pieces = [b"one", b"two" * 50_000]
    length = b"%d" % len(b"".join(pieces))
    await ask.whole("POST", headers=[(b"content-length", length)], body=pieces)
    (received,) = wire.requests
    assert received.body == b"".join(pieces)
    assert received.values(b"content-length") == [length]
    assert received.values(b"transfer-encoding") == []


async def test_pieces_leave_as_they_come(ask: Ask, wire: RawUpstream) -> None:
    """The upstream may see the first one before there is a second."""
    came = asyncio.Event()
    loop = asyncio.get_running_loop()

    def script(peer: Peer) -> None:
        loop.call_soon_threadsafe(came.set)
        peer.json()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.wait_for(came.wait(), 10)

    wire.script = script
    headers = [(b"content-length", b"5")]
    assert (await ask.whole("POST", headers=headers, body=pieces()))[0] == 200


SHORT_OR_LONG: list[list[bytes]] = [[b"four"], [b"four", b"four"]]


@only_lean
@pytest.mark.parametrize("pieces", SHORT_OR_LONG)
async def test_a_body_of_another_length_than_stated_is_an_error(
    ask: Ask, wire: RawUpstream, pieces: list[bytes]
) -> None:
    """The upstream never takes the rest for a request, or a request for the rest."""
    with pytest.raises(httpx.LocalProtocolError, match=r"(longer|shorter) than 6 bytes"):
        await ask("POST", headers=[(b"content-length", b"6")], body=pieces)
    assert wire.requests == []


REFUSED: list[tuple[str, bytes, RawHeaders, str]] = [
    ("GET /x", b"/", [], "method"),
    ("GE\r\nT", b"/", [], "method"),
    ("GET", b"/ HTTP/1.1\r\nX: y", [], "target"),
    ("GET", b"/a b", [], "target"),
    ("GET", b"/\x00", [], "target"),
    ("GET", b"/\xe9", [], "target"),
    ("GET", b"/", [(b"x\r\ny", b"1")], "field name"),
    ("GET", b"/", [(b"x y", b"1")], "field name"),
    ("GET", b"/", [(b"x:y", b"1")], "field name"),
    ("GET", b"/", [(b"", b"1")], "field name"),
    ("GET", b"/", [(b"x\xe9", b"1")], "field name"),
    ("GET", b"/", [(b"x", b"1\r\ny: 2")], "field value"),
    ("GET", b"/", [(b"x", b"1\n")], "field value"),
    ("GET", b"/", [(b"x", b"1\r")], "field value"),
    ("GET", b"/", [(b"x", b"\x00")], "field value"),
    ("GET", b"/", [(b"x", b"\x7f")], "field value"),
    ("POST", b"/", [(b"content-length", b"+1")], "Content-Length"),
    ("POST", b"/", [(b"content-length", b"1"), (b"content-length", b"2")], "Content-Length"),
    ("POST", b"/", [(b"content-length", b"7")], "Content-Length"),
    ("POST", b"/", [(b"content-length", b"")], "Content-Length"),
]


@only_lean
@pytest.mark.parametrize(("method", "target", "headers", "named"), REFUSED)
async def test_what_could_be_read_as_something_else_is_not_sent(
    ask: Ask, wire: RawUpstream, method: str, target: bytes, headers: RawHeaders, named: str
) -> None:
    """Not a byte of it; the message says which part, not what it holds."""
    with pytest.raises(httpx.LocalProtocolError, match=named):
        await ask(method, target, headers)
    assert wire.connections == 0


@only_lean
async def test_framing_is_not_taken_over_from_the_caller(ask: Ask, wire: RawUpstream) -> None:
    """Nor is a hop-by-hop field, or an Expect that nobody here waits for."""
    headers = [
        (b"Transfer-Encoding", b"gzip"),
        (b"Connection", b"close"),
        (b"Expect", b"100-continue"),
        (b"Upgrade", b"h2c"),
        (b"TE", b"trailers"),
    ]
    response = await ask("POST", headers=headers, body=b"x")
    assert await body_of(response)
    names = {name for name, _ in wire.requests[0].headers}
    assert names == {b"host", b"content-length"}

"""The quick way to read a head takes only what can be read in one way, and reads it so."""

import pytest

from gateway.http1_head import CHUNKED, ordinary_head

LINE = b"POST /openai/v1/x?a=%20b HTTP/1.1\r\n"


def test_an_ordinary_head_is_read() -> None:
    """Names come in lower case, values and repeated fields as they are, in order."""
    raw = LINE + b"HOST: here\r\nX-Two: a \r\nx-two:\tB\xc3\xa4\xff\r\ncontent-length: 12"
    head = ordinary_head(raw)
    assert head is not None
    assert (head.raw, head.method, head.target) == (raw, "POST", "/openai/v1/x?a=%20b")
    assert head.fields == [
        ("host", "here"),
        ("x-two", "a "),
        ("x-two", "B\xe4\udcff"),
        ("content-length", "12"),
    ]
    assert (head.length, head.framing, head.keep_alive) == (12, True, True)


@pytest.mark.parametrize(
    ("field", "framing", "keep_alive"),
    [
        (b"x: y", None, True),
        (b"Content-Length: 0", True, True),
        (b"Transfer-Encoding: chunked", CHUNKED, True),
        (b"Connection: Keep-Alive", None, True),
        (b"Connection: close", None, False),
        (b"Connection: keep-alive, x-hop", None, False),
    ],
)
def test_what_follows_a_head_is_told(
    field: bytes, framing: str | bool | None, *, keep_alive: bool
) -> None:
    """How the body ends, and whether another request may follow."""
    head = ordinary_head(LINE + b"Host: here\r\n" + field)
    assert head is not None
    assert (head.framing, head.keep_alive) == (framing, keep_alive)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        LINE.removesuffix(b"\r\n"),
        b"GET /x HTTP/1.0\r\nHost: here",
        b"GET  /x HTTP/1.1\r\nHost: here",
        b"GET /\xff HTTP/1.1\r\nHost: here",
        LINE + b"Host: here\r\nHost: there",
        LINE + b"Host: here\r\nno colon",
        LINE + b"Host: here\r\n folded: line",
        LINE + b"Host : here",
        LINE + b"Host: here\nX: y",
        LINE + b"Host: here\r\nX: a\x00b",
        LINE + b"Host: here\r\nContent-Length: 1\r\nContent-Length: 1",
        LINE + b"Host: here\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        LINE + b"Host: here\r\nContent-Length: +1",
        LINE + b"Host: here\r\nContent-Length: 1_0",
        LINE + b"Host: here\r\nContent-Length: \xd9\xa1",
        LINE + b"Host: here\r\nContent-Length:",
        LINE + b"Host: here\r\nTransfer-Encoding: gzip, chunked",
        LINE + b"Host: here\r\nTransfer-Encoding: Chunked",
        LINE + b"Host: here\r\nConnection: close\r\nConnection: keep-alive",
        LINE + b"Host: here\r\nExpect: 100-continue",
        LINE + b"Host: here\r\nUpgrade: websocket",
    ],
)
def test_what_is_not_ordinary_is_left_to_the_strict_way(raw: bytes) -> None:
    """Nothing that needs a decision, or a refusal, is taken here."""
    assert ordinary_head(raw) is None

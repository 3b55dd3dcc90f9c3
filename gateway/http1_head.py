"""The head of a request: what it has to be (RFC 9112 sections 2 to 6), and a quick way to read it.

Nearly every head is ordinary: it arrives whole, and says once what it says. Such a one is read in
one pass. All others are left to the server's own parser, and checked behind it.
"""

import re
from typing import Any, NamedTuple

from sanic import Request
from sanic.exceptions import BadRequest, BadURL, ExpectationFailed

CHUNKED = "chunked"
"""The one transfer coding that is taken, as the server names it."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEAD = re.compile(
    _TOKEN + rb" [!-~]+ HTTP/1\.[01](?:\r\n" + _TOKEN + rb":[\t -~\x80-\xff]*)*",
)
_LENGTH = re.compile(r"[0-9]{1,18}[ \t]*", re.ASCII)
_TOLD_ONCE = frozenset(
    {"connection", "content-length", "expect", "host", "transfer-encoding", "upgrade"}
)


class Malformed(BadRequest):
    """Bytes that another server could read as another request. The message is for the client."""


class OrdinaryHead(NamedTuple):
    """A head of HTTP/1.1 that can be read in one way only. `raw` is without the blank line;
    `length` is that of the body in bytes, if it is stated; `framing` tells how the body's end is
    known: CHUNKED, True for by its length, None where there is no body.
    """

    raw: bytes
    method: str
    target: str
    fields: list[tuple[str, str]]
    length: int
    framing: str | bool | None
    keep_alive: bool


def ordinary_head(raw: bytes) -> OrdinaryHead | None:
    """Read it; None where it is not ordinary, which does not say that it is wrong."""
    if not _HEAD.fullmatch(raw):
        return None
    line, *lines = raw.decode(errors="surrogateescape").split("\r\n")
    method, target, version = line.split(" ")
    fields = []
    told: dict[str, str] = {}
    for field in lines:
        name, _, value = field.partition(":")
        name, value = name.lower(), value.lstrip()
        fields.append((name, value))
        if name in _TOLD_ONCE:
            if name in told:
                return None
            told[name] = value
    length, coding = told.get("content-length"), told.get("transfer-encoding")
    if version != "HTTP/1.1" or not _is_ordinary(told, length, coding):
        return None
    return OrdinaryHead(
        raw,
        method,
        target,
        fields,
        0 if length is None else int(length),
        coding if length is None else True,
        told.get("connection", "keep-alive").lower() == "keep-alive",
    )


def _is_ordinary(told: dict[str, str], length: str | None, coding: str | None) -> bool:
    if "host" not in told or "expect" in told or "upgrade" in told:
        return False
    if coding is not None:
        return length is None and coding == CHUNKED
    return length is None or _LENGTH.fullmatch(length) is not None


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


class AnyTarget(Request):
    """A request whose target may be anything: the server would drop what it cannot parse."""

    def __init__(self, url_bytes: bytes, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(url_bytes, *args, **kwargs)
        except BadURL:
            super().__init__(b"*", *args, **kwargs)

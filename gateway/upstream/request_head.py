"""The head of a request as bytes, and how its body is framed (RFC 9112 sections 3, 5 and 6)."""

import string

import httpx

from gateway.upstream.headers import HOP_BY_HOP

_OURS = HOP_BY_HOP | {b"content-length", b"expect", b"host"}
"""Fields that the sender of a message decides on: never taken over from a caller."""

_TOKEN = (string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~").encode()
_VISIBLE = bytes(range(0x21, 0x7F))
_IN_A_VALUE = b"\t " + _VISIBLE + bytes(range(0x80, 0x100))
_EXPECTS_A_BODY = frozenset({"POST", "PUT", "PATCH"})


def request_head(
    request: httpx.Request, host: bytes, body_length: int | None
) -> tuple[bytes, int | None]:
    """The head with its empty line, and the length that it states for a body (None: chunked).

    The target is the extension `target` (bytes) where there is one, else the URL's. `body_length`
    is None for a body that is streamed: it has the length that the caller's field states, else it
    is sent in chunks. Raises httpx.LocalProtocolError for what would be read as something else.
    """
    target = request.extensions.get("target") or request.url.raw_path
    lines = [b"%b %b HTTP/1.1" % (request.method.encode(), target), b"Host: " + host]
    names, values = [], []
    stated: set[bytes] = set()
    for field in request.headers.raw:
        name, value = field
        if (lower := name.lower()) not in _OURS:
            names.append(name)
            values.append(value)
            lines.append(b"%b: %b" % field)
        elif lower == b"content-length":
            stated.add(value)
    _require_plain(request.method.encode(), target, names, values)
    length = _length(stated, body_length)
    if length is None:
        lines.append(b"Transfer-Encoding: chunked")
    elif length or request.method in _EXPECTS_A_BODY or stated:
        lines.append(b"Content-Length: %d" % length)
    lines.append(b"\r\n")
    return b"\r\n".join(lines), length


def _require_plain(method: bytes, target: bytes, names: list[bytes], values: list[bytes]) -> None:
    """Whatever is left when the allowed characters are deleted is not allowed."""
    if not method or method.translate(None, _TOKEN):
        raise httpx.LocalProtocolError("The method has characters that HTTP does not allow.")
    if not target or target.translate(None, _VISIBLE):
        raise httpx.LocalProtocolError("The target has characters that HTTP does not allow.")
    if b"" in names or b"".join(names).translate(None, _TOKEN):
        raise httpx.LocalProtocolError("A field name has characters that HTTP does not allow.")
    if b"".join(values).translate(None, _IN_A_VALUE):
        raise httpx.LocalProtocolError("A field value has characters that HTTP does not allow.")


def _length(stated: set[bytes], body_length: int | None) -> int | None:
    if not stated:
        return body_length
    value = min(stated)
    if len(stated) > 1 or not value.isdigit():
        raise httpx.LocalProtocolError("Content-Length is not one number.")
    if body_length not in (None, int(value)):
        raise httpx.LocalProtocolError("Content-Length is not the length of the body.")
    return int(value)

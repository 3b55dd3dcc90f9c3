"""The head of an answer: what makes it doubtful, and how it frames the body."""

import httpx

from gateway.upstream.headers import RawHeaders

LONGEST_HEAD = 65_536
"""Bytes, with interim answers; also the most that chunks may have around and behind them."""
MOST_FIELDS = 256
_CODING = b"transfer-encoding"
_LENGTH = b"content-length"


def is_chunked(fields: RawHeaders, read: int) -> bool:
    """Whether the body comes in chunks. `read` is how many bytes came until the head was whole.

    Raises httpx.RemoteProtocolError where the head is too large or its framing is unclear. Two
    lengths, and a length beside chunks, are the parser's to refuse.
    """
    if len(fields) > MOST_FIELDS:
        raise httpx.RemoteProtocolError(f"More than {MOST_FIELDS} header fields.")
    if read > LONGEST_HEAD and sum(len(name) + len(value) for name, value in fields) > LONGEST_HEAD:
        raise httpx.RemoteProtocolError(f"More than {LONGEST_HEAD} bytes of header fields.")
    for name, value in fields:
        if len(name) == len(_CODING) and name.lower() == _CODING:
            if value.lower() != b"chunked":
                raise httpx.RemoteProtocolError("A transfer coding that nobody asked for.")
            return True
    return False


def is_framed(fields: RawHeaders) -> bool:
    """Whether the head says where the body ends; otherwise it ends with the connection."""
    return any(name.lower() in (_LENGTH, _CODING) for name, _ in fields)

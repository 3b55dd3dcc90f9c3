"""An upstream's own key, should it echo it, is covered up before the caller sees it.

Providers mask keys in their errors, but a proxy in front of one, a debugging endpoint or a
compatible server may send back what it was sent. Only the key's exact bytes are replaced, by as
many asterisks, so that lengths stand. Bodies in a content coding are looked into where they are
errors, and sent in none if they hold the key; an answer that went well is not unpacked for this.
"""

from itertools import chain

import httpx

from gateway.metering.encodings import UndecodableError, are_readable, codings_of, decoder
from gateway.responses import UNREACHABLE, Refusal
from gateway.upstream import RawHeaders

LARGEST_ERROR = 1 << 20
_FIRST_ERROR = 400
SHORTEST_SECRET = 8
"""A shorter key is a placeholder (`none`, `EMPTY`), and may be a word of an answer."""


class Redactor:
    """Passes on one body, piece by piece, without the key, wherever it was cut."""

    __slots__ = ("_held", "_inner", "_key", "_mask")

    def __init__(self, key: str | None) -> None:
        self._key = key.encode() if key and len(key) >= SHORTEST_SECRET else b""
        self._mask = b"*" * len(self._key)
        self._inner = self._key[:-1]
        self._held = b""

    def has_to_look_into(self, status: int, content_encoding: str) -> bool:
        """Whether an answer is an error that may have the key packed in it."""
        return status >= _FIRST_ERROR and bool(self._key and codings_of(content_encoding))

    async def looked_into(self, answer: httpx.Response) -> httpx.Response:
        """The same answer, or another in its place if the key is packed in it.

        Raises Refusal where the packed error is larger than `LARGEST_ERROR`.
        """
        codings = codings_of(answer.headers.get("content-encoding", ""))
        body = bytearray()
        async for piece in answer.stream:  # type: ignore[union-attr]  # async by contract
            body += piece
            if len(body) > LARGEST_ERROR:
                raise Refusal(UNREACHABLE, "The upstream's error is too large to be passed on.")
        try:
            plain = decoder(codings)(bytes(body)) if are_readable(codings) else b""
        except UndecodableError:
            plain = b""
        headers, packed = answer.headers.raw, bytes(body)
        if self._key in plain:
            packed = plain.replace(self._key, self._mask)
            headers = [
                header for header in headers
                if header[0].lower() not in (b"content-encoding", b"content-length")
            ]  # fmt: skip
            headers.append((b"content-length", b"%d" % len(packed)))
        stream = httpx.ByteStream(packed)
        return httpx.Response(answer.status_code, headers=headers, stream=stream)

    def headers(self, headers: RawHeaders) -> RawHeaders:
        """The same fields, the key in no name and no value of them."""
        key, mask = self._key, self._mask
        if not key or key not in b"\n".join(chain.from_iterable(headers)):
            return headers
        return [(name.replace(key, mask), value.replace(key, mask)) for name, value in headers]

    def feed(self, piece: bytes) -> bytes:
        """What may be passed on by now: the beginning of a key waits for its end."""
        if not self._key or not piece:
            return piece
        if self._held:
            piece, self._held = self._held + piece, b""
        if self._key in piece:
            piece = piece.replace(self._key, self._mask)
        if piece[-1:] not in self._inner:  # nearly always: an event ends in a line feed
            return piece
        return self._hold(piece)

    def finish(self) -> bytes:
        """What was held back: it was no key."""
        held, self._held = self._held, b""
        return held

    def _hold(self, piece: bytes) -> bytes:
        at = max(0, len(piece) - len(self._inner))
        while (at := piece.find(self._key[:1], at)) >= 0:
            if self._key.startswith(piece[at:]):
                self._held = piece[at:]
                return piece[:at]
            at += 1
        return piece

"""An upstream's own key, should it echo it, is covered up before the caller sees it.

Providers mask keys in their errors, but a proxy in front of one, a debugging endpoint or a
compatible server may send back what it was sent. Only the key's exact bytes are replaced, by as
many asterisks, so that lengths stand.
"""

from gateway.upstream import RawHeaders

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

    def headers(self, headers: RawHeaders) -> RawHeaders:
        """The same fields, the key in no value of them."""
        key = self._key
        if not key or not any(key in value for _, value in headers):
            return headers
        return [(name, value.replace(key, self._mask)) for name, value in headers]

    def feed(self, piece: bytes) -> bytes:
        """What may be passed on by now: the beginning of a key waits for its end."""
        if not self._key:
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

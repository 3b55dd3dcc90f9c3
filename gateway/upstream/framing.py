"""A streamed request body on the wire: of the length that was stated, or in chunks."""

import httpx


class Framing:
    """`length` is what the head states; None where it announces chunks (RFC 9112 section 7.1)."""

    __slots__ = ("_left", "_length")

    def __init__(self, length: int | None) -> None:
        self._length = self._left = length

    def framed(self, piece: bytes) -> tuple[bytes, ...]:
        """What to write for a piece. Raises httpx.LocalProtocolError where it is too much."""
        if not piece:  # an empty chunk would be the last one
            return ()
        if self._left is None:
            return (b"%x\r\n" % len(piece), piece, b"\r\n")
        self._left -= len(piece)
        if self._left < 0:
            raise httpx.LocalProtocolError(f"The body is longer than {self._length} bytes.")
        return (piece,)

    def end(self) -> bytes:
        """What to write at the end. Raises httpx.LocalProtocolError where something is missing."""
        if self._left:
            raise httpx.LocalProtocolError(f"The body is shorter than {self._length} bytes.")
        return b"0\r\n\r\n" if self._left is None else b""

"""A request's body on its way: read whole where it is metered, passed on piece by piece otherwise.

The length is bounded here, because the server lifts its own bound for streamed bodies.
"""

from collections.abc import AsyncIterator

from sanic import Request
from sanic.exceptions import BadRequest, RequestTimeout

from gateway.responses import BAD_REQUEST, REQUEST_TIMEOUT, TOO_LARGE, Refusal


class Body:
    """The body of one request. `refusal` is set when it turned out too large or broken."""

    def __init__(self, request: Request, max_bytes: int) -> None:
        self._request = request
        self._max_bytes = max_bytes
        self._read = 0
        self.refusal: Refusal | None = None
        length = request.headers.getone("content-length", None)
        self.is_there = length not in (None, "0") or "transfer-encoding" in request.headers
        if length is not None and length.isdecimal() and int(length) > max_bytes:
            raise self._too_large()

    async def read(self) -> bytes:
        """The whole body. Raises Refusal (413)."""
        pieces = []
        while piece := await self._piece():
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pieces(self) -> AsyncIterator[bytes] | None:
        """Piece by piece, None where there is no body. Iterating raises Refusal (413)."""
        return self._pieces() if self.is_there else None

    async def _pieces(self) -> AsyncIterator[bytes]:
        while piece := await self._piece():
            yield piece

    async def _piece(self) -> bytes | None:
        stream = self._request.stream
        if not (self.is_there and stream):
            return None
        try:
            piece: bytes | None = await stream.read()  # type: ignore[attr-defined]  # HTTP/1.1
        except BadRequest as error:
            self.refusal = Refusal(BAD_REQUEST, "The request body cannot be read as HTTP/1.1.")
            raise self.refusal from error
        except RequestTimeout as error:
            self.refusal = Refusal(REQUEST_TIMEOUT, "The rest of the request body did not come.")
            raise self.refusal from error
        self._read += len(piece or b"")
        if self._read > self._max_bytes:
            self.refusal = self._too_large()
            raise self.refusal
        return piece

    def _too_large(self) -> Refusal:
        return Refusal(
            TOO_LARGE, f"The request body is larger than the {self._max_bytes} bytes taken here."
        )

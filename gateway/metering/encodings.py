"""Content codings of answers, undone on the side, chunk by chunk, to read the usage inside.

RFC 9110, section 8.4, for the header; RFC 1951, 1952, 7932 and 8878 for what is in the body. No
chunk may grow beyond `LARGEST_DECODED` bytes, and no body beyond that and `MOST_GROWTH` times what
came of it: what would is no answer worth reading, and would take the loop from everybody.
"""

import zlib
from collections.abc import Callable
from typing import Protocol

import brotli  # type: ignore[import-untyped]  # it ships no types
import zstandard

LARGEST_DECODED = 4 << 20
MOST_GROWTH = 64
_MOST_CODINGS = 3
_LARGEST_WINDOW = 8 << 20  # RFC 9659: what a zstd decoder for the web has to offer
_PIECE = 512  # zstd: at most 128 blocks of 128 KiB come out of as many bytes
_DETECT_HEADER = 32 + zlib.MAX_WBITS  # gzip or zlib, as the body says
_NO_HEADER = -zlib.MAX_WBITS
_HEADER_BYTES = 2
_GZIP = b"\x1f\x8b"


class UndecodableError(Exception):
    """The body is not in the coding that its header names, or grows without measure."""


class Decoder(Protocol):
    """Undoes one coding; fed in chunks."""

    def decode(self, chunk: bytes) -> bytes:
        """Return what `chunk` completes. Raises UndecodableError."""


def codings_of(content_encoding: str) -> list[str]:
    """Return the codings of a Content-Encoding header, in the order in which they were applied."""
    names = (name.strip().lower() for name in content_encoding.split(","))
    return [name for name in names if name not in ("", "identity")]


def are_readable(codings: list[str]) -> bool:
    """Whether a body in these codings can be read here."""
    return len(codings) <= _MOST_CODINGS and all(name in _DECODERS for name in codings)


def decoder(codings: list[str]) -> Callable[[bytes], bytes]:
    """Return what undoes readable codings, the last applied first."""
    stages = [_DECODERS[name]() for name in reversed(codings)]
    allowed = LARGEST_DECODED

    def decode(chunk: bytes) -> bytes:
        nonlocal allowed
        allowed += MOST_GROWTH * len(chunk)
        for stage in stages:
            chunk = stage.decode(chunk)
        allowed -= len(chunk)
        if allowed < 0:
            raise UndecodableError
        return chunk

    return decode


def narrowed(accept_encoding: str) -> str:
    """Return of an Accept-Encoding header what can be read here, weights included."""
    offers = (offer.strip() for offer in accept_encoding.split(","))
    readable = [offer for offer in offers if offer.partition(";")[0].strip().lower() in _READABLE]
    return ", ".join(readable) or "identity"


class _Zlib:
    """gzip, of one member or several, and deflate, with its zlib header or without."""

    def __init__(self) -> None:
        self._head = b""
        self._stream: zlib._Decompress | None = None
        self._members = 0

    def decode(self, chunk: bytes) -> bytes:
        decoded = b""
        while chunk:
            stream = self._stream or self._begin(chunk)
            if stream is None:
                return decoded
            chunk, self._head = self._head + chunk, b""
            try:
                decoded += stream.decompress(chunk, LARGEST_DECODED - len(decoded) + 1)
            except zlib.error as error:
                raise UndecodableError from error
            if len(decoded) > LARGEST_DECODED:
                raise UndecodableError
            chunk = stream.unused_data
            self._stream = None if stream.eof else stream
        return decoded

    def _begin(self, chunk: bytes) -> "zlib._Decompress | None":
        """Choose by the first two bytes; None as long as there are fewer."""
        head = self._head + chunk
        if len(head) < _HEADER_BYTES:
            self._head = head
            return None
        if self._members and not head.startswith(_GZIP):
            raise UndecodableError
        self._members += 1
        return zlib.decompressobj(_window_bits(head))


def _window_bits(head: bytes) -> int:
    """Tell gzip and zlib from the bare deflate that some servers send against RFC 9110."""
    is_gzip = head.startswith(_GZIP)
    is_zlib = head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(head[:2], "big") % 31 == 0
    return _DETECT_HEADER if is_gzip or is_zlib else _NO_HEADER


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    def decode(self, chunk: bytes) -> bytes:
        try:
            decoded: bytes = self._stream.process(chunk, output_buffer_limit=LARGEST_DECODED)
        except brotli.error as error:
            raise UndecodableError from error
        # It grows its buffer in large steps, so the limit may have been passed.
        if len(decoded) > LARGEST_DECODED or not self._takes_more():
            raise UndecodableError
        return decoded

    def _takes_more(self) -> bool:
        return bool(self._stream.can_accept_more_data() or self._stream.is_finished())


class _Zstd:
    """Frames of zstd. The decoder cannot be told to stop, so it is fed in small pieces."""

    def __init__(self) -> None:
        context = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._stream = context.decompressobj(read_across_frames=True)

    def decode(self, chunk: bytes) -> bytes:
        decoded = []
        size = 0
        for at in range(0, len(chunk), _PIECE):
            try:
                decoded.append(self._stream.decompress(chunk[at : at + _PIECE]))
            except zstandard.ZstdError as error:
                raise UndecodableError from error
            size += len(decoded[-1])
            if size > LARGEST_DECODED:
                raise UndecodableError
        return b"".join(decoded)


_DECODERS: dict[str, Callable[[], Decoder]] = {
    "gzip": _Zlib,
    "x-gzip": _Zlib,
    "deflate": _Zlib,
    "br": _Brotli,
    "zstd": _Zstd,
}
_READABLE = {*_DECODERS, "identity"}

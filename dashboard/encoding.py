"""Which encoding a browser takes, and bytes in it (RFC 9110, 8.4 and 12.5.3)."""

import zlib
from collections.abc import Mapping
from typing import Literal

import brotli  # type: ignore[import-untyped]

Encoding = Literal["br", "gzip", "identity"]

BY_PREFERENCE: tuple[Encoding, ...] = ("br", "gzip", "identity")
"""The smallest first: what is taken where a browser likes several equally."""
_GZIP = zlib.MAX_WBITS | 16
_ALIASES = {"x-gzip": "gzip"}


def accepted(header: str) -> Encoding:
    """Choose by the value of Accept-Encoding. Identity where nothing that we have is accepted."""
    weights = _weights(header)
    fallback = weights.get("*", 0.0)
    likings = {name: weights.get(name, fallback) for name in BY_PREFERENCE}
    if "identity" not in weights and "*" not in weights:
        likings["identity"] = min((w for w in weights.values() if w > 0), default=1.0)
    best = max(BY_PREFERENCE, key=likings.__getitem__)
    return best if likings[best] > 0 else "identity"


def encoded(content: bytes, encoding: Encoding, *, quality: int) -> bytes:
    """Compress. `quality` counts from 1 (fast) to 9 (small) for both encodings."""
    if encoding == "br":
        return bytes(brotli.compress(content, quality=quality))
    if encoding == "gzip":
        compressor = zlib.compressobj(quality, zlib.DEFLATED, _GZIP)
        return compressor.compress(content) + compressor.flush()
    return content


def _weights(header: str) -> Mapping[str, float]:
    """The weight of each coding that is named, by its lower-case name."""
    found = {}
    for element in header.lower().split(","):
        name, *parameters = (part.strip() for part in element.split(";"))
        if name:
            found[_ALIASES.get(name, name)] = _weight(parameters)
    return found


def _weight(parameters: list[str]) -> float:
    """The q of an element: 1 where there is none, 0 where it cannot be read."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0

"""Which encoding is chosen, and that it can be read."""

import gzip

import brotli
import pytest

from dashboard.encoding import BY_PREFERENCE, Encoding, accepted, encoded


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", "identity"),
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("x-gzip", "gzip"),
        ("GZIP;Q=0.5", "gzip"),
        ("gzip;q=1.0, br;q=0.9", "gzip"),
        ("gzip;q=0.5, br;q=0.6", "br"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0", "identity"),
        ("*", "br"),
        ("*;q=0.5, br;q=0", "gzip"),
        ("*;q=0", "identity"),  # nothing is acceptable: the bare file is better than none
        ("identity;q=0", "identity"),
        ("identity, br;q=0.1", "identity"),
        ("identity;q=0.5, gzip", "gzip"),
        ("deflate", "identity"),
        ("br;q=much, gzip", "gzip"),
        ("br; q=0.001 ;x=1", "br"),
        (",;,q=1", "identity"),
        ("gzip;q=nan", "identity"),
    ],
)
def test_the_browser_says_what_it_takes(header: str, chosen: Encoding) -> None:
    """By weight, then by what is smallest; nonsense is not taken for consent."""
    assert accepted(header) == chosen


@pytest.mark.parametrize("encoding", BY_PREFERENCE)
@pytest.mark.parametrize("content", [b"", b"<p>" * 5_000])
def test_what_is_encoded_can_be_read(encoding: Encoding, content: bytes) -> None:
    """By decoders that are not ours."""
    decode = {"br": brotli.decompress, "gzip": gzip.decompress, "identity": bytes}[encoding]

    assert decode(encoded(content, encoding, quality=4)) == content

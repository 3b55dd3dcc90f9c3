"""Encoded answers: passed as they are, and read on the side."""

import gzip
import random
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from answers import (  # fmt: skip
    ANSWER,
    JSON,
    PROMPT,
    SSE,
    USAGE,
    chat,
    cost,
    cut,
    estimated,
    prepared,
    reported,
    sse,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.metering import observe
from gateway.metering.encodings import LARGEST_DECODED, UndecodableError, decoder, narrowed

Pack = Callable[[bytes], bytes]


def bare_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def two_members(pack: Pack) -> Pack:
    return lambda body: pack(body[: len(body) // 2]) + pack(body[len(body) // 2 :])


PACKED: dict[str, tuple[str, Pack]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "any case": ("GZip ", gzip.compress),
    "gzip of two members": ("gzip", two_members(gzip.compress)),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", bare_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard.compress),
    "zstd of two frames": ("zstd", two_members(zstandard.compress)),
    "identity": ("identity", bytes),
    "gzip, br": ("gzip, br", lambda body: brotli.compress(gzip.compress(body))),
    "deflate,zstd": ("deflate,identity,zstd", lambda b: zstandard.compress(zlib.compress(b))),
    "three": ("br, gzip,zstd", lambda b: zstandard.compress(gzip.compress(brotli.compress(b)))),
}


@pytest.mark.parametrize("case", PACKED)
@pytest.mark.parametrize(("content_type", "body"), [(JSON, ANSWER), (SSE, sse({"usage": USAGE}))])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_an_encoded_answer_is_read_on_the_side(
    case: str, content_type: str, body: bytes, step: int
) -> None:
    """The client's bytes stay encoded, and the usage is found."""
    encoding, pack = PACKED[case]
    packed = pack(body)
    observer = chat(content_type, encoding=encoding)
    for i in range(0, len(packed), step):
        chunk = packed[i : i + step]
        assert observer.feed(chunk) is chunk

    assert observer.finish() == b""
    assert observer.tokens() == reported(15)


@settings(deadline=None)  # the machine may be busy
@given(
    case=st.sampled_from(list(PACKED)),
    body=st.binary(max_size=2_000),
    at=st.lists(st.integers(0, 3_000), max_size=20),
)
def test_any_body_is_decoded_whatever_the_cuts(case: str, body: bytes, at: list[int]) -> None:
    """What is read is what was encoded."""
    encoding, pack = PACKED[case]
    names = [name.strip().lower() for name in encoding.split(",")]
    decode = decoder([name for name in names if name != "identity"])

    assert b"".join(decode(chunk) for chunk in cut(pack(body), at)) == body


@settings(deadline=None)  # the machine may be busy
@given(
    encoding=st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br"]),
    body=st.binary(max_size=300),
    at=st.lists(st.integers(0, 300), max_size=5),
)
def test_no_body_disturbs_the_relaying(encoding: str, body: bytes, at: list[int]) -> None:
    """Whatever comes under the name of an encoding passes, and costs its prompt at least."""
    observer = chat(JSON, encoding=encoding)
    for chunk in cut(body, at):
        assert observer.feed(chunk) is chunk
    observer.finish()

    assert observer.tokens().tokens in range(PROMPT + 301) if body else True


def flushed_events(events: list[bytes], packer: "zlib._Compress") -> list[bytes]:
    return [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events]


def test_an_encoded_stream_is_read_as_it_comes() -> None:
    """Each flushed event is known when its last byte has passed, long before the stream ends."""
    packer = zlib.compressobj(wbits=31)
    observer = chat(SSE, encoding="gzip")
    for tokens in (3, 4, 5):
        usage = {"prompt_tokens": 10, "completion_tokens": tokens}
        for chunk in flushed_events([sse({"choices": [], "usage": usage})], packer):
            observer.feed(chunk)
        assert observer.tokens() == reported(10 + tokens)


def test_an_injected_stream_that_comes_encoded_is_passed_untouched() -> None:
    """What cannot be edited is still read."""
    packed = gzip.compress(sse({"choices": [], "usage": USAGE}))
    observer = observe("openai", prepared(inject=True), 200, SSE, "gzip")

    assert observer.feed(packed) is packed
    assert observer.finish() == b""
    assert observer.tokens() == reported(15)


@pytest.mark.parametrize("encoding", ["compress", "dcb", "gzip, nonsense", "br, br, br, br"])
@pytest.mark.parametrize("content_type", [JSON, SSE, "text/html", ""])
def test_an_answer_in_an_encoding_that_is_not_read_is_estimated(
    encoding: str, content_type: str
) -> None:
    """Its bytes are all that can be seen: four are a token."""
    assert cost(chat(content_type, encoding=encoding), b"\x8b" * 400) == estimated(PROMPT + 100)


NOISE = random.Random(7).randbytes(400)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
@pytest.mark.parametrize("body", [b"not packed at all, but text " * 4, NOISE, b"\x00\xff" * 200])
def test_a_broken_encoding_is_passed_and_estimated(encoding: str, body: bytes) -> None:
    """A body that cannot be unpacked reaches the client, and is not free."""
    usage = cost(chat(JSON, encoding=encoding), body)

    assert usage.estimated
    assert usage.tokens >= PROMPT


@pytest.mark.parametrize("junk", [b"\x00" * 64, b"junk" * 16])
def test_what_follows_an_encoded_answer_does_not_unread_it(junk: bytes) -> None:
    """Padding behind the body is none of the answer's."""
    assert cost(chat(JSON, encoding="gzip"), gzip.compress(ANSWER)) == reported(15)
    observer = chat(JSON, encoding="gzip")
    observer.feed(gzip.compress(ANSWER))
    observer.feed(junk)

    assert observer.tokens() == reported(15)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress)],
)
def test_a_body_that_grows_without_measure_is_not_unpacked(encoding: str, pack: Pack) -> None:
    """A few kilobytes that become many megabytes stay what they are."""
    bomb = pack(ANSWER[:-1] + b" " * (24 << 20) + b"}")
    assert len(bomb) < 1 << 18

    with pytest.raises(UndecodableError):
        decoder([encoding])(bomb)
    assert cost(chat(JSON, encoding=encoding), bomb) == estimated(PROMPT + -(-len(bomb) // 4))


def test_a_body_that_grows_chunk_by_chunk_is_given_up() -> None:
    """Each chunk stays within its bound, but all of them together are no answer."""
    read = decoder(["gzip"])
    chunk = gzip.compress(bytes(LARGEST_DECODED // 2))

    read(chunk)
    read(chunk)
    with pytest.raises(UndecodableError):
        read(chunk)


def test_a_long_answer_that_packs_well_is_read() -> None:
    """What grows less than `MOST_GROWTH` times may be as long as it likes."""
    read = decoder(["gzip"])
    lines = b"".join(b"data: %d words of an answer\n\n" % number for number in range(100_000))
    packed = gzip.compress(lines, 1)

    assert [read(packed) == lines for _ in range(6)] == [True] * 6
    assert 6 * len(lines) > LARGEST_DECODED


def test_a_body_up_to_the_bound_is_unpacked() -> None:
    """The bound is for what one chunk becomes."""
    for encoding, pack in (("gzip", gzip.compress), ("zstd", zstandard.compress)):
        assert len(decoder([encoding])(pack(b" " * LARGEST_DECODED))) == LARGEST_DECODED


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate, br, zstd"),
        ("br;q=1.0, gzip;q=0.5, *;q=0.1", "br;q=1.0, gzip;q=0.5"),
        ("gzip;q=0, zstd", "gzip;q=0, zstd"),
        ("BR , x-gzip,identity; q=0.2", "BR, x-gzip, identity; q=0.2"),
        ("compress, dcz, exi", "identity"),
        ("*", "identity"),
        ("", "identity"),
        ("brotli, gzipped", "identity"),
    ],
)
def test_only_what_can_be_read_is_asked_for(offered: str, asked: str) -> None:
    """The client's wishes stay, with their weights, but for encodings that nobody here reads."""
    assert narrowed(offered) == asked

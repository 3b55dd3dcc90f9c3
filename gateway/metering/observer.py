"""Watches one answer pass, and tells what it cost."""

import zlib
from collections.abc import Callable

from gateway.metering.anthropic import AnthropicReader
from gateway.metering.figures import Usage
from gateway.metering.meter import Prepared
from gateway.metering.openai import OpenAIReader
from gateway.metering.sources import JsonSource, Reader, Source, StreamSource, UnreadableSource

_LARGEST_INFLATED = 4 << 20  # of one chunk: some 60 times the largest that a socket gives
_DETECT_HEADER = 32 + zlib.MAX_WBITS  # gzip or zlib, as the body says
_NO_HEADER = -zlib.MAX_WBITS
_HEADER_BYTES = 2
_INFLATED = ("gzip", "x-gzip", "deflate")


class Observer:
    """One per answer. The client's bytes go through it, and are changed only if `edits`.

    `succeeded` says whether the upstream answered with a 2xx status; otherwise only what it
    reports is counted. The same holds for an answer to a request that was not metered.
    """

    def __init__(
        self,
        source: Source,
        prepared: Prepared | None,
        *,
        succeeded: bool,
        edits: bool = False,
        inflate: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._source = source
        self._prepared = prepared if succeeded else None
        self.edits = edits
        self._inflate = inflate

    def feed(self, chunk: bytes) -> bytes:
        """Return what to pass to the client now: `chunk` itself, unless the meter had injected."""
        if self.edits:
            return self._source.feed(chunk)
        if self._inflate is None:
            self._source.feed(chunk)
        else:
            self._feed_inflated(chunk, self._inflate)
        return chunk

    def finish(self) -> bytes:
        """Take the end of the upstream's body; returns what was held back.

        Not called for a body that breaks off.
        """
        held_back = self._source.finish()
        return held_back if self.edits else b""

    def tokens(self) -> Usage:
        """Return what the answer has cost so far. It may be asked at any time, also after an abort.

        What a metered answer did not report is estimated; what cannot be a model's answer, such
        as a page of HTML, costs nothing.
        """
        reported = self._source.reported()
        prompt, output = reported.prompt, reported.output
        prepared = self._prepared
        if prepared is None:
            return Usage((prompt or 0) + (output or 0), estimated=False)
        if output is None and not prepared.generates:
            output = 0
        if prompt is not None and output is not None:
            return Usage(prompt + output, estimated=False)
        if prompt is None and not self._source.is_answer():
            return Usage(0, estimated=False)
        prompt = prepared.prompt_tokens if prompt is None else prompt
        output = self._source.output_estimate() if output is None else output
        return Usage(prompt + output, estimated=True)

    def _feed_inflated(self, chunk: bytes, inflate: Callable[[bytes], bytes]) -> None:
        try:
            self._source.feed(inflate(chunk))
        except zlib.error:
            # Broken or a bomb: the client gets it all the same, but it is no longer read here.
            self._source = UnreadableSource()
            self._inflate = None


def observe(
    dialect: str,
    prepared: Prepared | None,
    status: int,
    content_type: str,
    content_encoding: str,
) -> Observer:
    """Return the observer of one answer.

    `dialect` is the upstream's, `prepared` the request as it was metered, or None; the two
    headers are as the upstream sent them, empty if it sent none.
    """
    injected = prepared is not None and prepared.injected
    encoding = content_encoding.strip().lower()
    is_plain = encoding in ("", "identity")
    source = _source(
        _reader(prepared.dialect if prepared else dialect, strip=injected and is_plain),
        content_type.partition(";")[0].strip().lower(),
        is_metered=prepared is not None,
        is_readable=is_plain or encoding in _INFLATED,
    )
    return Observer(
        source,
        prepared,
        succeeded=200 <= status < 300,  # noqa: PLR2004 - the class of a status is its first digit
        edits=injected and is_plain and isinstance(source, StreamSource),
        inflate=None if is_plain or isinstance(source, UnreadableSource) else _Inflater(),
    )


def _reader(dialect: str, *, strip: bool) -> Reader:
    return AnthropicReader() if dialect == "anthropic" else OpenAIReader(strip=strip)


def _source(reader: Reader, media_type: str, *, is_metered: bool, is_readable: bool) -> Source:
    if media_type == "text/event-stream":
        return StreamSource(reader) if is_readable else UnreadableSource()
    if media_type == "application/json" or media_type.endswith("+json"):
        return JsonSource(reader) if is_readable else UnreadableSource()
    # A metered answer that does not say that it is JSON may still be: its first byte tells.
    return JsonSource(reader) if is_metered else UnreadableSource()


class _Inflater:
    """Inflates a body chunk by chunk; raises zlib.error if it is broken or grows too much."""

    def __init__(self) -> None:
        self._head = b""
        self._stream: zlib._Decompress | None = None

    def __call__(self, chunk: bytes) -> bytes:
        if self._stream is None:
            self._head += chunk
            if len(self._head) < _HEADER_BYTES:
                return b""
            chunk = self._head
            self._stream = zlib.decompressobj(_window_bits(chunk))
        inflated = self._stream.decompress(chunk, _LARGEST_INFLATED)
        if self._stream.unconsumed_tail:
            raise zlib.error("one chunk grows beyond what is worth reading")
        return inflated


def _window_bits(head: bytes) -> int:
    """Tell gzip and zlib from the bare deflate that some servers send against RFC 9110."""
    is_gzip = head.startswith(b"\x1f\x8b")
    is_zlib = head[0] & 0x0F == zlib.DEFLATED and int.from_bytes(head[:2], "big") % 31 == 0
    return _DETECT_HEADER if is_gzip or is_zlib else _NO_HEADER

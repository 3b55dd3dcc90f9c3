"""Watches one answer pass, and tells what it cost."""

from collections.abc import Callable

from gateway.metering.anthropic import AnthropicReader
from gateway.metering.encodings import UndecodableError, are_readable, codings_of, decoder
from gateway.metering.figures import Usage
from gateway.metering.meter import Prepared
from gateway.metering.openai import OpenAIReader
from gateway.metering.sources import (
    JsonSource,
    Reader,
    Source,
    StreamSource,
    UnreadableSource,
    unread_tokens,
)


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
        decode: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._source = source
        self._prepared = prepared if succeeded else None
        self.edits = edits
        self._decode = decode
        self._is_lost = False
        self._unread = 0

    def feed(self, chunk: bytes) -> bytes:
        """Return what to pass to the client now: `chunk` itself, unless the meter had injected."""
        if self.edits:
            return self._source.feed(chunk)
        if self._decode is None:
            self._source.feed(chunk)
        else:
            self._feed_decoded(chunk, self._decode)
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
        if prompt is None and not (self._is_lost or self._source.is_answer()):
            return Usage(0, estimated=False)
        unreported = self._unreported(output) if prepared.generates else 0
        is_whole = prompt is not None and (output is not None or not prepared.generates)
        prompt = prepared.prompt_tokens if prompt is None else prompt
        return Usage(prompt + (output or 0) + unreported, estimated=not is_whole or unreported > 0)

    def _unreported(self, output: int | None) -> int:
        """Estimate the output that is in no figure; what was not decoded is in the last one."""
        unread = unread_tokens(self._unread) if output is None else 0
        return self._source.unreported_output() + unread

    def _feed_decoded(self, chunk: bytes, decode: Callable[[bytes], bytes]) -> None:
        if not self._is_lost:
            try:
                self._source.feed(decode(chunk))
            except UndecodableError:
                # Broken or a bomb: the client gets it all the same, but it is read no further.
                self._is_lost = True
        if self._is_lost:
            self._unread += len(chunk)


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
    codings = codings_of(content_encoding)
    source = _source(
        _reader(prepared.dialect if prepared else dialect, strip=injected),
        content_type.partition(";")[0].strip().lower(),
        is_metered=prepared is not None,
        is_readable=are_readable(codings),
    )
    is_read = bool(codings) and not isinstance(source, UnreadableSource)
    return Observer(
        source,
        prepared,
        succeeded=200 <= status < 300,  # noqa: PLR2004 - the class of a status is its first digit
        edits=injected and not codings and isinstance(source, StreamSource),
        decode=decoder(codings) if is_read else None,
    )


def _reader(dialect: str, *, strip: bool) -> Reader:
    return AnthropicReader() if dialect == "anthropic" else OpenAIReader(strip=strip)


def _source(reader: Reader, media_type: str, *, is_metered: bool, is_readable: bool) -> Source:
    if media_type == "text/event-stream":
        return StreamSource(reader) if is_readable else UnreadableSource()
    if media_type == "application/json" or media_type.endswith("+json"):
        return JsonSource(reader) if is_readable else UnreadableSource()
    # A metered answer that does not say that it is JSON may still be: its first byte tells.
    return JsonSource(reader) if is_metered and is_readable else UnreadableSource()

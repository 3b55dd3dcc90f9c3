"""The forms in which an answer arrives, and what each can tell of its cost.

Where no output figure is reported, the output is estimated: four bytes of a JSON body are a
token. In a stream, each event that carries a delta is at least a token, and the events are a
token per four bytes beyond their envelope, which is the shortest of them (at most
`LARGEST_ENVELOPE` bytes); the larger of the two counts.
"""

from typing import Protocol

from gateway.metering.estimate import text_tokens
from gateway.metering.figures import Reported
from gateway.metering.sse import EventFilter

LARGEST_BODY = 16 << 20
LARGEST_ENVELOPE = 256


class Reader(Protocol):
    """Finds the usage of one answer, in the words of its dialect."""

    @property
    def least_output(self) -> int:
        """An output figure that is not final."""

    def document(self, body: bytes | bytearray) -> None:
        """Read a whole JSON answer; one that is not an object reports nothing."""

    def event(self, event: bytes) -> bytes:
        """Read one server-sent event, and return what the client may see of it."""

    def reported(self) -> Reported:
        """Return the figures found so far."""


class Source(Protocol):
    """One answer, fed in decoded bytes."""

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; returns what the client may see by now."""

    def finish(self) -> bytes:
        """Take the end of the upstream's body; returns what was held back."""

    def reported(self) -> Reported:
        """Return the figures found so far."""

    def output_estimate(self) -> int:
        """Tokens of output seen so far."""

    def is_answer(self) -> bool:
        """Whether this can be a model's answer, or the beginning of one."""


class UnreadableSource:
    """An answer in a form that is not read here."""

    def __init__(self) -> None:
        self._seen = 0

    def feed(self, chunk: bytes) -> bytes:
        self._seen += len(chunk)
        return chunk

    def finish(self) -> bytes:
        return b""

    def reported(self) -> Reported:
        return Reported(None, None)

    def output_estimate(self) -> int:
        return text_tokens(self._seen)

    def is_answer(self) -> bool:
        return True


class JsonSource:
    """One JSON document, kept whole up to `LARGEST_BODY` bytes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._kept = bytearray()
        self._seen = 0
        self._finished = False

    def feed(self, chunk: bytes) -> bytes:
        self._seen += len(chunk)
        if self._seen <= LARGEST_BODY:
            self._kept += chunk
        else:
            self._kept.clear()
        return chunk

    def finish(self) -> bytes:
        self._finished = True
        return b""

    def reported(self) -> Reported:
        self._reader.document(self._kept)
        return self._reader.reported()

    def output_estimate(self) -> int:
        return text_tokens(self._seen)

    def is_answer(self) -> bool:
        if self._seen > LARGEST_BODY:
            return True
        begun = self._kept.lstrip()
        return begun.startswith(b"{") or not (begun or self._finished)


class StreamSource:
    """A stream of server-sent events; `finish` also reads a last one without its blank line."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._tally = _Tally(reader)
        self._filter = EventFilter(self._tally.event)
        self._seen_any = False
        self._finished = False

    def feed(self, chunk: bytes) -> bytes:
        self._seen_any = self._seen_any or bool(chunk)
        return self._filter.feed(chunk)

    def finish(self) -> bytes:
        self._finished = True
        return self._filter.finish()

    def reported(self) -> Reported:
        return self._reader.reported()

    def output_estimate(self) -> int:
        return max(self._reader.least_output, self._tally.tokens())

    def is_answer(self) -> bool:
        return self._seen_any or not self._finished


class _Tally:
    """Counts the deltas of a stream, and shows its reader the events that mention usage."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._deltas = 0
        self._bytes = 0
        self._envelope = LARGEST_ENVELOPE

    def event(self, event: bytes) -> bytes:
        # Legacy completions have no delta; their events are told by their object's name.
        if b"delta" in event or b'"text_completion"' in event:
            size = len(event)
            self._deltas += 1
            self._bytes += size
            self._envelope = min(self._envelope, size)
        return self._reader.event(event) if b'"usage"' in event else event

    def tokens(self) -> int:
        return max(self._deltas, text_tokens(self._bytes - self._deltas * self._envelope))

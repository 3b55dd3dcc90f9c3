"""The forms in which an answer arrives, and what each can tell of its cost.

Where no output figure is reported, the output is estimated from the text that was seen, as a
prompt is. In a stream, each event with text is at least a token; the events up to
`LARGEST_SAMPLE` bytes are looked into, and the bytes of all tell what those stand for.
"""

import json
from typing import Protocol

from gateway.metering.figures import Reported
from gateway.metering.sse import EventFilter, data_of
from gateway.metering.texts import answer_text, delta_text
from gateway.metering.tokens import text_tokens

LARGEST_BODY = 16 << 20
LARGEST_TAIL = 64 << 10
LARGEST_SAMPLE = 32 << 10
_UNREAD_BYTES_PER_TOKEN = 4
_USAGE = b'"usage"'


class Reader(Protocol):
    """Finds the usage of one answer, in the words of its dialect."""

    reports: int
    """How many events have told an output figure."""

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

    def unreported_output(self) -> int:
        """Tokens of output that were seen and are in no figure."""

    def is_answer(self) -> bool:
        """Whether this can be a model's answer, or the beginning of one."""


def unread_tokens(size: int) -> int:
    """Tokens in bytes that cannot be read."""
    return -(-size // _UNREAD_BYTES_PER_TOKEN)


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

    def unreported_output(self) -> int:
        return unread_tokens(self._seen)

    def is_answer(self) -> bool:
        return True


class JsonSource:
    """One JSON document, kept whole up to `LARGEST_BODY` bytes; of a longer one only the end."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._kept = bytearray()
        self._seen = 0
        self._finished = False

    def feed(self, chunk: bytes) -> bytes:
        self._seen += len(chunk)
        self._kept += chunk
        if self._is_too_large() and len(self._kept) > 2 * LARGEST_TAIL:
            del self._kept[:-LARGEST_TAIL]
        return chunk

    def finish(self) -> bytes:
        self._finished = True
        return b""

    def reported(self) -> Reported:
        self._reader.document(_last_usage(self._kept) if self._is_too_large() else self._kept)
        return self._reader.reported()

    def unreported_output(self) -> int:
        if self._reader.reported().output is not None:
            return 0
        if self._is_too_large():
            return unread_tokens(self._seen)
        text = answer_text(self._kept)
        return text_tokens(self._kept if text is None else text.encode())

    def is_answer(self) -> bool:
        if self._is_too_large():
            return True
        if self._finished:
            return self._is_whole_answer()
        begun = self._kept.lstrip()
        return begun.startswith(b"{") or not begun

    def _is_whole_answer(self) -> bool:
        """No page of another form, no bytes that are no text, nothing that only tells of an error.

        What begins as an answer is not free because its end is broken.
        """
        try:
            text = self._kept.decode().lstrip()
            document = json.loads(text)
        except UnicodeDecodeError:
            return False
        except (ValueError, RecursionError):
            return text.startswith("{")
        if not isinstance(document, dict):
            return False
        return not document.get("error") or bool(answer_text(self._kept))

    def _is_too_large(self) -> bool:
        return self._seen > LARGEST_BODY


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

    def unreported_output(self) -> int:
        seen = self._tally.tokens()
        return seen if self._reader.reports else max(self._reader.least_output, seen)

    def is_answer(self) -> bool:
        return self._seen_any or not self._finished


class _Tally:
    """Keeps the deltas since the last figure, and shows its reader what mentions usage."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._sample: list[bytes] = []
        self._sampled = 0
        self._bytes = 0

    def event(self, event: bytes) -> bytes:
        # Legacy completions have no delta; their events are told by their object's name.
        if b"delta" in event or b'"text_completion"' in event:
            self._bytes += len(event)
            if self._sampled < LARGEST_SAMPLE:
                self._sample.append(event)
                self._sampled += len(event)
        if _USAGE not in event:
            return event
        reports = self._reader.reports
        passed = self._reader.event(event)
        if self._reader.reports != reports:
            self._sample.clear()
            self._sampled = self._bytes = 0
        return passed

    def tokens(self) -> int:
        """Tokens in the deltas since the last figure. Of an unknown form, each is a token."""
        texts = [delta_text(data_of(event)) for event in self._sample]
        told = "".join(text or "" for text in texts)
        deltas = sum(text is None or bool(text) for text in texts)
        tokens = max(deltas, text_tokens(told.encode()))
        return -(-tokens * self._bytes // self._sampled) if self._sampled else 0


def _last_usage(tail: bytes | bytearray) -> bytes:
    """Return the last usage object of a document's end, in a document of its own."""
    at = tail.rfind(_USAGE)
    value = tail[at + len(_USAGE) :].decode(errors="replace").lstrip()
    if at < 0 or not value.startswith(":"):
        return b""
    try:
        usage, _ = json.JSONDecoder().raw_decode(value[1:].lstrip())
    except (ValueError, RecursionError):
        return b""
    return json.dumps({"usage": usage}).encode()

r"""Server-sent events, as bytes: cut where an event ends, whatever the chunks.

An event ends at a blank line, and a line at \n, \r\n or \r, in any mix (WHATWG HTML, 9.2.6). At
most one event is kept, and never more than `LARGEST_EVENT` bytes of it.
"""

import re
from collections.abc import Callable

LARGEST_EVENT = 16 << 20  # a picture comes in one event, with its usage behind it

# A blank line that involves a \r: the \r of the second line end may have its \n behind it.
_BLANK_LINE = re.compile(rb"\n\n|[\n\r]\r\n?")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def data_of(event: bytes) -> bytes:
    """Join the data lines of an event, as the standard says."""
    if event.startswith(b"data:") and event.find(b"\n") == len(event) - 2 and b"\r" not in event:
        return event[5:-2].removeprefix(b" ")  # nearly every event is one line
    return b"\n".join(
        line[5:].removeprefix(b" ")
        for line in event.removeprefix(_BYTE_ORDER_MARK).splitlines()
        if line.startswith(b"data:")
    )


class EventFilter:
    """Shows each whole event, blank line included, to `edit`, and passes on what that returns.

    What is not shown is passed on as it is: an event larger than `LARGEST_EVENT`.
    """

    def __init__(self, edit: Callable[[bytes], bytes]) -> None:
        self._edit = edit
        self._held = bytearray()
        self._has_cr = False
        self._oversized = False
        self._cut_after_cr = False
        self._passed_last = True

    def feed(self, chunk: bytes) -> bytes:
        """Return what may be passed on now: every event that `chunk` completes."""
        if not chunk:
            return b""
        passed = [self._late_newline(chunk)] if self._cut_after_cr else []
        if self._cut_after_cr and chunk[0] == ord("\n"):
            chunk = chunk[1:]
        self._cut_after_cr = False
        self._has_cr = self._has_cr or b"\r" in chunk
        held = self._held
        start = max(len(held) - 1, 0)  # the blank line may have begun with the last byte
        held += chunk
        begin = 0
        while (end := self._end_of_event(start)) >= 0:
            passed.append(self._take(bytes(held[begin:end])))
            begin = start = end
        self._cut_after_cr = 0 < begin == len(held) and held.endswith(b"\r")
        del held[:begin]
        if self._oversized or len(held) > LARGEST_EVENT:
            self._oversized = True
            passed.append(bytes(held[:-1]))
            del held[:-1]
        return b"".join(passed)

    def finish(self) -> bytes:
        """Return what is left when the stream has ended without a blank line."""
        rest = bytes(self._held)
        self._held.clear()
        return self._take(rest) if rest else b""

    def _late_newline(self, chunk: bytes) -> bytes:
        """Return the \\n of a \\r\\n that was cut in two, if the event before it was passed on."""
        return b"\n" if chunk[0] == ord("\n") and self._passed_last else b""

    def _end_of_event(self, start: int) -> int:
        """Return the position behind the next blank line, or -1."""
        if self._has_cr:
            found = _BLANK_LINE.search(self._held, start)
            return found.end() if found else -1
        at = self._held.find(b"\n\n", start)
        return at + 2 if at >= 0 else -1

    def _take(self, event: bytes) -> bytes:
        if self._oversized or len(event) > LARGEST_EVENT:
            self._oversized = False
            self._passed_last = True
            return event
        passed = self._edit(event)
        self._passed_last = bool(passed)
        return passed

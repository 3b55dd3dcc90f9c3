"""Where one server-sent event ends and the next begins."""

from collections.abc import Callable, Iterable

import pytest
from answers import cut
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.metering.sse import LARGEST_EVENT, EventFilter, data_of


def run(chunks: Iterable[bytes], edit: Callable[[bytes], bytes]) -> bytes:
    events = EventFilter(edit)
    return b"".join([*(events.feed(chunk) for chunk in chunks), events.finish()])


def shown(chunks: Iterable[bytes]) -> list[bytes]:
    """Return the data of each event that the filter shows."""
    found: list[bytes] = []

    def note(event: bytes) -> bytes:
        found.append(data_of(event))
        return event

    run(chunks, note)
    return found


@pytest.mark.parametrize(
    "blank",
    [b"\n\n", b"\n\r", b"\n\r\n", b"\r\r", b"\r\r\n", b"\r\n\n", b"\r\n\r", b"\r\n\r\n"],
)
def test_an_event_ends_at_a_blank_line_of_any_kind(blank: bytes) -> None:
    """Every pair of line ends is a blank line, however it is cut."""
    body = b"".join(b"data: %d" % i + blank for i in range(3))

    assert shown([body]) == [b"0", b"1", b"2"]
    assert [d for d in shown(body[i : i + 1] for i in range(len(body))) if d] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_one_line_end_is_no_blank_line(end: bytes) -> None:
    """A \\r\\n is one line end, whole or cut in two."""
    body = b"data: 0" + end + b"data: 1" + end + end

    assert shown([body]) == [b"0\n1"]
    assert shown(body[i : i + 1] for i in range(len(body)))[0] == b"0\n1"


def test_an_event_is_passed_on_with_its_last_byte() -> None:
    """Nothing waits for the next event, whatever the line ends."""
    for end in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        event = b"data: 1" + end
        assert EventFilter(lambda event: event).feed(event) == event


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: 1\n\n", b"1"),
        (b"data:1\n\n", b"1"),
        (b"data:  1\n\n", b" 1"),
        (b"data: 1\r\n\r\n", b"1"),
        (b"data: 1\r\r", b"1"),
        (b"event: x\ndata: 1\nid: 2\ndata: 3\n\n", b"1\n3"),
        (b"data: 1\ndata: 2\n\n", b"1\n2"),
        (b"data: 1\rdata: 2\n\n", b"1\n2"),
        (b": data: 1\n\n", b""),
        (b":\n\n", b""),
        (b"data\n\n", b""),
        (b"data:\n\n", b""),
        (b"database: 1\n\n", b""),
        (b"\n\n", b""),
        (b"", b""),
        (b"data: 1", b"1"),
        (b"\xef\xbb\xbfdata: 1\n\n", b"1"),
    ],
)
def test_data_lines_are_joined_as_the_standard_says(event: bytes, data: bytes) -> None:
    """One space is taken off, comments and other fields are not data."""
    assert data_of(event) == data


blocks = st.lists(
    st.sampled_from(
        [b"data: drop", b"data: keep", b": note", b"", b"event: x", "\u597d\U0001f642".encode()],
    ),
    max_size=12,
)
line_ends = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=12, max_size=12)
positions = st.lists(st.integers(0, 500))


def without_dropped(event: bytes) -> bytes:
    return b"" if b"drop" in event else event


@settings(deadline=None)  # the machine may be busy
@given(lines=blocks, ends=line_ends, at=positions)
def test_the_cuts_between_chunks_make_no_difference(
    lines: list[bytes], ends: list[bytes], at: list[int]
) -> None:
    """Any cut passes on the same bytes and shows the same data, with events dropped or not."""
    body = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    pieces = cut(body, at)

    assert run(pieces, lambda event: event) == body
    assert run(pieces, without_dropped) == run([body], without_dropped)
    assert [d for d in shown(pieces) if d] == [d for d in shown([body]) if d]


@pytest.mark.parametrize("size", [LARGEST_EVENT - 100, LARGEST_EVENT + 100])
@pytest.mark.parametrize("step", [600_000, 50_000_000])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_an_oversized_event_is_passed_on_unread(size: int, step: int, end: bytes) -> None:
    """Beyond the bound an event is not shown, and the one behind it is."""
    body = b"data: drop" + b"x" * size + end + b"data: drop" + end + b"data: keep" + end
    chunks = [body[i : i + step] for i in range(0, len(body), step)]

    passed = run(chunks, without_dropped)

    is_oversized = size > LARGEST_EVENT
    assert len(passed) == (size + 10 + len(end) if is_oversized else 0) + 10 + len(end)
    assert passed.endswith(b"data: keep" + end)


def test_no_more_than_the_bound_is_kept_of_an_event_without_end() -> None:
    """A stream that never ends an event fills no memory."""
    events = EventFilter(lambda event: event)

    size = LARGEST_EVENT // 4
    fed = sum(len(events.feed(b"x" * size)) for _ in range(8))

    assert 8 * size - fed == 1


def test_searching_an_event_in_tiny_chunks_starts_where_it_had_stopped() -> None:
    """Each byte is searched once: the work does not grow with what is held."""
    searched = 0

    class Watched(EventFilter):
        def _end_of_event(self, start: int) -> int:
            nonlocal searched
            searched += len(self._held) - start
            return super()._end_of_event(start)

    events = Watched(lambda event: event)
    for _ in range(100_000):
        events.feed(b"x")

    assert searched <= 2 * 100_000


def test_an_event_without_its_blank_line_is_shown_at_the_end() -> None:
    """The last event counts also where the upstream left out its end."""
    assert shown([b"data: 1\n\ndata: 2"]) == [b"1", b"2"]
    assert run([b"data: 1\n\ndata: drop\n"], without_dropped) == b"data: 1\n\n"

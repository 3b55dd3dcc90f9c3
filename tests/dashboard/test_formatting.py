"""How numbers, limits, times and authors are written."""

from datetime import UTC, datetime

import pytest

from dashboard import formatting

MOMENT = datetime(2026, 12, 4, 7, 5, 9, 999_999, tzinfo=UTC)
KEY = "8db83585-fd25-4a63-89fa-957ac5e7fb23"


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0"), (999, "999"), (1000, "1_000"), (2**53 - 1, "9_007_199_254_740_991")],
)
def test_digits_are_grouped(number: int, written: str) -> None:
    """By a narrow space at which no line breaks."""
    assert formatting.grouped(number) == written.replace("_", "\u202f")


def test_nothing_no_limit_and_unknown_are_told_apart() -> None:
    """0 is a number, None is not: it is no limit, inherited, or unknown."""
    assert formatting.limit(0) == "0: nothing is admitted"
    assert formatting.limit(None) == "no limit"
    assert formatting.limit(1200) == "1\u202f200"
    assert formatting.overridden(None) == "inherited"
    assert formatting.overridden(0) == "0"
    assert formatting.known(None) == "unknown"
    assert formatting.known(0) == "0"


def test_times_say_that_they_are_utc() -> None:
    """To the second, the minute, or the day."""
    assert formatting.iso(MOMENT) == "2026-12-04T07:05:09Z"
    assert formatting.clock(MOMENT) == "07:05:09 UTC"
    assert formatting.day_and_time(MOMENT) == "2026-12-04 07:05 UTC"
    assert formatting.day(MOMENT) == "4 December"


@pytest.mark.parametrize(
    ("actor", "written"),
    [
        (f"key:{KEY} night shift", "night shift (key 8db83585)"),
        (f"key:{KEY}", "key 8db83585"),
        (f"key:{KEY} key:{KEY} x", f"key:{KEY} x (key 8db83585)"),
        ("cli:root", "cli:root"),
        ("key:unreadable", "key:unreadable"),
    ],
)
def test_an_author_is_a_name_and_a_key(actor: str, written: str) -> None:
    """A name is taken for no more than a name."""
    assert formatting.author(actor) == written

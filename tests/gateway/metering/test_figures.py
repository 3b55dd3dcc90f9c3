"""Which figures are believed, and which of several is kept."""

from typing import Any

import pytest

from gateway.metering.figures import figure, keep_latest

ABSURD = [-1, -0.5, 2.5, 1e300, "7", "", True, None, [7], {}, {"a": 7}, 10**9 + 1, 2**63, 10**40]


@pytest.mark.parametrize("value", ABSURD)
def test_an_absurd_figure_is_ignored_alone(value: Any) -> None:
    """One field that cannot be true leaves the others standing."""
    figures: dict[str, int] = {}

    keep_latest(figures, {"a": value, "b": 5}, ("a", "b"))

    assert figures == {"b": 5}


@pytest.mark.parametrize("value", [0, 1, 10**9, 0.0, 12.0, 1e9])
def test_a_count_within_bounds_is_believed(value: float) -> None:
    """The bounds themselves are counts, and so is a whole number that is written as a float."""
    assert figure(value) == value
    assert type(figure(value)) is int


@pytest.mark.parametrize(
    ("value", "is_taken"), [(5, True), (0, False), (None, False), (-1, False), (7, True)]
)
def test_it_is_told_whether_a_figure_was_taken(value: Any, is_taken: bool) -> None:
    """A repeated figure is a figure; what is not believed, or means "as said before", is none."""
    assert keep_latest({"a": 5}, {"a": value}, ("a",)) is is_taken


def test_the_latest_figure_is_kept_and_zero_is_not_later() -> None:
    """A larger, a smaller and a repeated figure replace; 0 only fills a gap."""
    figures: dict[str, int] = {}

    for value in (25, 300, 40, 0, None):
        keep_latest(figures, {"a": value, "b": 0}, ("a", "b"))

    assert figures == {"a": 40, "b": 0}


@pytest.mark.parametrize("usage", [None, 7, "usage", [], [{"a": 1}], True])
def test_a_usage_that_is_no_object_is_ignored(usage: Any) -> None:
    """A provider may put anything under the name."""
    figures = {"a": 1}

    keep_latest(figures, usage, ("a",))

    assert figures == {"a": 1}

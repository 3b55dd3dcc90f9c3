"""The last hour the size of a word."""

import re
from xml.etree import ElementTree as ET

import pytest
from hours import hour, minute, quiet

from dashboard.sparkline import sparkline
from graphql_api.model import DeniedCounts, UsagePoint

SOME_DENIED = DeniedCounts(agent=2, tokens=1)


def drawn(points: tuple[UsagePoint, ...], limit: int | None) -> ET.Element:
    """The picture, read as XML."""
    return ET.fromstring(str(sparkline(points, limit)))


def paths(picture: ET.Element) -> dict[str, str]:
    """What is drawn, by its color."""
    return {
        path.get("fill") or f"line {path.get('stroke')}": path.get("d", "")
        for path in picture.iter("path")
    }


def test_it_says_in_words_what_it_shows() -> None:
    """Its label has the sums, the highest minute and the limit."""
    points = hour(
        lambda place: minute(
            100 if place == 3 else 20, 0, SOME_DENIED, undecided=4 if place == 9 else 0
        )
    )

    assert drawn(points, 1000).get("role") == "img"
    assert drawn(points, 1000).get("aria-label") == (
        "Last 60 minutes: 1\u202f280 admitted; at most 100 in a minute; 180 denied;"
        " 4 forwarded undecided; limit 1\u202f000"
    )
    assert drawn(quiet(), None).get("aria-label") == (
        "Last 60 minutes: 0 admitted; at most 0 in a minute; no limit"
    )


def test_bars_have_the_heights_of_their_minutes() -> None:
    """Twenty units high is the highest of use and limit; a single request is seen."""
    points = hour(lambda place: minute({0: 50, 1: 25, 59: 1}.get(place, 0)))

    assert paths(drawn(points, 100)) == {
        "#0072B2": "M0 20h0v-10h1v5h1v5h57v-1h1v1z",
        "line currentColor": "M0 0.5H60",
    }


def test_denied_stands_on_top_of_admitted() -> None:
    """Both are outlines from the ground; admitted is drawn over denied."""
    points = hour(lambda place: minute(10 if place == 5 else 0, 0, SOME_DENIED))

    assert paths(drawn(points, None)) == {
        "#D55E00": "M0 20h0v-5h5v-15h1v15h54v5z",
        "#0072B2": "M0 20h5v-15h1v15z",
    }


def test_minutes_with_an_open_limiter_are_grey() -> None:
    """They are marked over the whole height."""
    points = hour(lambda place: minute(1, undecided=place == 7))

    assert paths(drawn(points, None))["#808080"] == "M7 0h1v20h-1z"


def test_an_outage_of_minutes_is_one_band() -> None:
    """Each outage for itself, up to the running minute."""
    points = hour(lambda place: minute(1, undecided=place in {0, 1, 2, 58, 59}))

    assert paths(drawn(points, None))["#808080"] == "M0 0h3v20h-3zM58 0h2v20h-2z"


@pytest.mark.parametrize("limit", [None, 0, 60])
@pytest.mark.parametrize("points", [(), quiet()], ids=["unknown", "quiet"])
def test_nothing_to_draw_is_a_picture_too(
    points: tuple[UsagePoint, ...], limit: int | None
) -> None:
    """No use is drawn where there was none."""
    assert set(paths(drawn(points, limit))) <= {"line currentColor"}


def test_it_needs_no_inline_style_and_little_room() -> None:
    """The content security policy refuses the one, and fifty of them stand on a page."""
    text = str(sparkline(hour(lambda place: minute(place, 0, SOME_DENIED)), 60))

    assert not re.search(r"style|class=\"[^\"]*;", text)
    assert len(text) < 1500

"""The charts as Plotly JSON: what is drawn of which minute, and that names stay names."""

import json
from typing import Any

import plotly.graph_objects as go
import pytest
from hours import hour, minute, quiet
from hypothesis import given
from hypothesis import strategies as st

from dashboard.chart_layout import literal, scale
from dashboard.charts import (
    LEVELS,
    Figure,
    embedded,
    requests_figure,
    tokens_figure,
)
from graphql_api.model import DeniedCounts, UsagePoint

EVERY_LEVEL = DeniedCounts(agent=1, org=2, platform=3, tokens=4)
DENIED = tuple(f"denied: {level}" for level in ("agent", "organization", "platform"))
HOURS = {
    "quiet": quiet(),
    "unknown": (),
    "busy": hour(lambda place: minute(place, place * 700, EVERY_LEVEL)),
    "open": hour(
        lambda place: (
            minute(undecided=7)
            if place in (20, 21)
            else minute(5, 10, DeniedCounts(agent=place == 2), 7 * (place in (2, 40)))
        )
    ),
    "estimated": hour(lambda place: minute(1, max(50, place), estimated=place)),
    "first minute": hour(lambda place: minute(3 if place == 59 else 0)),
}


def traces(figure: Figure) -> dict[str, dict[str, Any]]:
    """The traces by what the legend calls them."""
    return {trace["name"]: trace for trace in figure["data"]}


def texts(figure: Figure) -> list[str]:
    """What is written into the chart."""
    return [label["text"] for label in figure["layout"]["annotations"]]


@pytest.mark.parametrize("points", HOURS.values(), ids=HOURS)
@pytest.mark.parametrize("limit", [None, 0, 60, 2**53 - 1])
def test_plotly_takes_every_figure(points: tuple[UsagePoint, ...], limit: int | None) -> None:
    """Plotly's own validators know every field, and every value is one that it may have."""
    go.Figure(requests_figure(points, limit=limit, name="Acme"))
    go.Figure(tokens_figure(points, name="Acme"))


def test_every_minute_has_its_bar_and_idle_minutes_are_zero() -> None:
    """Sixty numbers, one for each minute from the first, none left out."""
    points = hour(lambda place: minute(place % 2, place))

    requests = traces(requests_figure(points, limit=None, name="Acme"))["admitted"]
    tokens = traces(tokens_figure(points, name="Acme"))["reported"]

    assert requests["y"] == [0, 1] * 30
    assert tokens["y"] == list(range(60))
    assert (requests["x0"], requests["dx"]) == ("2026-11-30 23:30:00", 60_000)


def test_denials_are_stacked_by_level() -> None:
    """Each level that denied has its own trace with its own color and pattern; others have none."""
    figure = requests_figure(hour(lambda _: minute(9, 0, EVERY_LEVEL)), limit=None, name="Acme")
    some = requests_figure(
        hour(lambda _: minute(denied=DeniedCounts(tokens=1))), limit=None, name="Acme"
    )

    found = traces(figure)
    assert [trace["y"][0] for trace in found.values()] == [9, 1, 2, 3, 4]
    assert tuple(found) == ("admitted", *DENIED, "denied: token ceiling")
    looks = [(t["marker"]["color"], t["marker"]["pattern"]["shape"]) for t in found.values()]
    assert len({color for color, _ in looks}) == len({shape for _, shape in looks}) == 5
    assert figure["layout"]["barmode"] == "stack"
    assert tuple(traces(some)) == ("admitted", "denied: token ceiling")


def test_estimated_tokens_are_stacked_apart() -> None:
    """On top of what was reported, so that the whole bar is the total; where there are none, no
    legend speaks of them.
    """
    figure = tokens_figure(HOURS["estimated"], name="Acme")

    reported, estimated = figure["data"]
    assert (reported["name"], estimated["name"]) == ("reported", "estimated")
    assert estimated["y"] == list(range(60))
    assert [sum(both) for both in zip(reported["y"], estimated["y"], strict=True)] == [
        max(50, place) for place in range(60)
    ]
    assert reported["marker"]["color"] != estimated["marker"]["color"]
    assert estimated["marker"]["pattern"]["shape"]
    assert figure["layout"]["yaxis"]["range"][1] > 59
    assert tuple(traces(tokens_figure(HOURS["busy"], name="Acme"))) == ("reported",)


def test_the_fields_of_the_levels_are_those_of_the_model() -> None:
    """No level that can deny is missing from the chart."""
    assert {look[0] for look in LEVELS} == set(DeniedCounts.__struct_fields__)


@pytest.mark.parametrize("limit", [0, 1, 60, 10_000_000])
@pytest.mark.parametrize("requests", [0, 1, 50, 90_000])
def test_the_limit_is_a_labelled_dashed_line_inside_the_range(limit: int, requests: int) -> None:
    """Whatever the use, far below or far above, the line is seen and says what it is."""
    points = hour(lambda _: minute(requests))

    layout = requests_figure(points, limit=limit, name="Acme")["layout"]

    (line,) = [shape for shape in layout["shapes"] if shape["type"] == "line"]
    bottom, top = layout["yaxis"]["range"]
    assert bottom <= limit < top
    assert requests < top
    assert (line["y0"], line["y1"], line["line"]["dash"]) == (limit, limit, "dash")
    assert [text for text in texts({"layout": layout}) if text.startswith("limit")] == [
        {0: "limit 0: nothing is admitted", 10_000_000: "limit 10\u202f000\u202f000"}.get(
            limit, f"limit {limit}"
        )
    ]


def test_no_limit_draws_no_line() -> None:
    """Where nothing limits, nothing says so in the chart."""
    layout = requests_figure(HOURS["busy"], limit=None, name="Acme")["layout"]

    assert [shape["type"] for shape in layout["shapes"]] == ["rect"]


def test_the_running_minute_is_marked() -> None:
    """Its bars are lighter, there is a band behind them, and it is labelled."""
    figure = requests_figure(HOURS["busy"], limit=None, name="Acme")

    assert all(
        trace["marker"]["opacity"][-2] == 1 > trace["marker"]["opacity"][-1]
        for trace in figure["data"]
    )
    (band,) = figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == ("2026-12-01 00:28:30", "2026-12-01 00:29:30")
    assert "running" in texts(figure)


@pytest.mark.parametrize("kind", ["requests", "tokens"])
def test_minutes_with_an_open_limiter_are_marked(kind: str) -> None:
    """A band over the whole height, labelled; what was counted keeps its bars, else it is a gap."""
    points = HOURS["open"]
    figure = (
        requests_figure(points, limit=60, name="Acme")
        if kind == "requests"
        else tokens_figure(points, name="Acme")
    )

    *bars, bands = figure["data"]
    top = figure["layout"]["yaxis"]["range"][1]
    for trace in bars:
        assert [place for place, count in enumerate(trace["y"]) if count is None] == [20, 21]
    assert bars[0]["y"][2] == bars[0]["y"][40] == (5 if kind == "requests" else 10)
    assert [place for place, count in enumerate(bands["y"]) if count] == [2, 20, 21, 40]
    assert {count for count in bands["y"] if count} == {top}
    assert bands["customdata"][40] == [7, 5]
    assert [text for text in texts(figure) if "undecided" in text] == [
        "7 undecided",
        "14 undecided",
        "7 undecided",
    ]


def test_an_empty_chart_says_so() -> None:
    """Nothing sent and nothing known are different words, and neither is a bare grid."""
    assert "Nothing in the last hour" in texts(requests_figure(quiet(), limit=60, name="Acme"))
    assert "Nothing in the last hour" in texts(tokens_figure(quiet(), name="Acme"))
    unknown = requests_figure((), limit=60, name="Acme")
    assert "These numbers are not known" in texts(unknown)
    assert not unknown["layout"]["xaxis"]["visible"]
    assert "Nothing in the last hour" not in texts(
        requests_figure(HOURS["open"], limit=60, name="Acme")
    )


def test_the_axis_says_utc() -> None:
    """Plotly converts no zones, so that both the axis and the hover name it."""
    axis = requests_figure(HOURS["busy"], limit=None, name="Acme")["layout"]["xaxis"]

    assert "UTC" in axis["title"]["text"]
    assert axis["unifiedhovertitle"]["text"].endswith(" UTC")
    assert axis["range"] == ["2026-11-30 23:29:30", "2026-12-01 00:29:30"]


@given(st.integers(0, 2**53 - 1))
def test_a_scale_has_room_and_whole_steps(most: int) -> None:
    """Above 0 there are two to four lines, at whole numbers; what is highest is below the top."""
    found = scale(most)

    assert found.top > most
    assert min(found.top, 2) <= found.top // found.step <= 4


@given(st.text(alphabet=st.sampled_from("<>&$%{}b/;x\u2028\u2029\"'")))
def test_an_embedded_figure_cannot_end_its_element(name: str) -> None:
    """It has no character that HTML or JavaScript gives a meaning, and reads back the same."""
    figure = requests_figure(HOURS["quiet"], limit=1, name=name)

    text = str(embedded(figure))

    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == figure


def test_names_are_written_so_that_plotly_reads_no_markup() -> None:
    """Tags, entities, formulas and templates of Plotly come out as the text that they are."""
    assert literal("<b>x</b>") == "&lt;b&gt;x&lt;/b&gt;"
    assert literal("&lt;") == "&amp;lt;"
    assert literal("$x$") == "&#36;x&#36;"
    assert literal("%{y}") == "&#37;{y}"


def test_a_long_name_is_shortened_before_it_is_escaped() -> None:
    """The title fits a narrow screen, and no entity is cut in two."""
    title = requests_figure((), limit=1, name="&" * 100)["layout"]["title"]["text"]

    assert title == "Requests per minute: " + "&amp;" * 19 + "…"

"""Charts of the last hour, as plain Plotly JSON: {"data": [...], "layout": {...}}.

The browser draws them (static/dashboard.js) and adds what only it knows: its colors of text and
background, and its local time. The colors here are Okabe-Ito's, which people with any color vision
tell apart; each has a pattern of its own besides.

A minute in which the limiter was open has a hatched band above its bar, up to the top: what was
counted in it is not all that was sent. The band says how many requests were forwarded undecided. A
minute of which nothing else is recorded is a gap, not a zero.
"""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from dashboard import chart_marks
from dashboard.chart_layout import Figure, Json, layout, scale
from graphql_api.model import UsagePoint

Look = tuple[str, str, str, str]
"""Of a trace of bars: its id (for a level the field of DeniedCounts), legend, color, pattern."""
Counts = dict[Look, list[int]]
"""What is drawn of each minute, from the bottom of the stack to its top."""

ADMITTED: Look = ("admitted", "admitted", "#0072B2", "")
REPORTED: Look = ("reported", "reported", "#009E73", "")
ESTIMATED: Look = ("estimated", "estimated", "#F0E442", "/")
LEVELS: tuple[Look, ...] = (
    ("agent", "denied: agent", "#D55E00", "/"),
    ("org", "denied: organization", "#E69F00", "\\"),
    ("platform", "denied: platform", "#CC79A7", "x"),
    ("tokens", "denied: token ceiling", "#56B4E9", "."),
)
MINUTE_MS = 60_000
SETTLED, RUNNING = 1.0, 0.55  # opacity of a bar


def requests_figure(points: Sequence[UsagePoint], *, limit: int | None, name: str) -> Figure:
    """Requests per minute of `name`: admitted, and denied by each level on top.

    `points` are consecutive minutes, of which the last is running. `limit` is in requests per
    minute, None: there is none.
    """
    counts = {ADMITTED: [point.requests for point in points]}
    for look in LEVELS:
        denied = [int(getattr(point.denied, look[0])) for point in points]
        if any(denied):
            counts[look] = denied
    figure = _figure("Requests per minute", name, points, counts, limit or 0)
    if limit is not None:
        figure["layout"]["shapes"].append(chart_marks.limit_line(limit))
        figure["layout"]["annotations"].append(chart_marks.limit_label(limit))
    return figure


def tokens_figure(points: Sequence[UsagePoint], *, name: str) -> Figure:
    """Tokens per minute of `name`, in the minute in which they were settled: what was reported, and
    what was estimated on top. `points` as above.
    """
    counts = {REPORTED: [point.tokens - point.estimated for point in points]}
    if any(point.estimated for point in points):
        counts[ESTIMATED] = [point.estimated for point in points]
    return _figure("Tokens per minute", name, points, counts)


def embedded(figure: Figure) -> Markup:
    """The figure as JSON that can stand in a `<script type="application/json">`."""
    text = msgspec.json.encode(figure).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - nothing is left in it that could end the element


def _figure(
    title: str, name: str, points: Sequence[UsagePoint], counts: Counts, least: int = 0
) -> Figure:
    """Draw the counts of each minute as a stack, the first at its bottom. `least` is in range."""
    sums = [sum(stack) for stack in zip(*counts.values(), strict=True)]
    height = scale(max([*sums, least]))
    bars = [_bar(points, sums, each, look) for look, each in counts.items()]
    shown = layout(title, name, height)
    if points:
        end = chart_marks.time(points, len(points) - 0.5)
        shown["xaxis"]["range"] = [chart_marks.time(points, -0.5), end]
        running = chart_marks.time(points, len(points) - 1.5)
        shown["shapes"] = [chart_marks.running_band(running, end)]
        shown["annotations"] = [chart_marks.running_label(end)]
    else:
        shown["xaxis"]["visible"] = False
    is_open = any(point.open for point in points)
    if not is_open and not any(sums):
        text = "Nothing in the last hour" if points else "These numbers are not known"
        shown["annotations"].append(chart_marks.nothing(text))
    shown["annotations"] += chart_marks.open_labels(points)
    return {"data": [*bars, _open_bands(points, height.top)] if is_open else bars, "layout": shown}


def _bar(
    points: Sequence[UsagePoint], sums: Sequence[int], counts: Sequence[int], look: Look
) -> Json:
    uid, name, color, pattern = look
    known = [
        None if point.open and not total else count
        for point, total, count in zip(points, sums, counts, strict=True)
    ]
    return {
        **_minutes(points),
        "uid": uid,
        "name": name,
        "y": known,
        "marker": marker(color, pattern, len(points)),
    }


def marker(color: str, pattern: str, bars: int) -> Json:
    """How bars look, of which the last is paler: it is running."""
    return {
        "color": color,
        "opacity": [SETTLED] * (bars - 1) + [RUNNING],
        "pattern": {"shape": pattern, "fillmode": "overlay", "size": 6, "solidity": 0.25},
    }


def _open_bands(points: Sequence[UsagePoint], top: int) -> Json:
    return {
        **_minutes(points),
        "uid": "open",
        "name": "limiter open",
        "width": MINUTE_MS,
        "y": [top if point.open else None for point in points],
        "customdata": [[point.open, point.requests] for point in points],
        "hovertemplate": (
            "limiter open: %{customdata[0]:,d} forwarded undecided,"
            " %{customdata[1]:,d} admitted<extra></extra>"
        ),
        "marker": {
            "color": "rgba(128,128,128,0.15)",
            "pattern": {"shape": "x", "fgcolor": "#808080", "fillmode": "overlay", "size": 8},
        },
    }


def _minutes(points: Sequence[UsagePoint]) -> Json:
    """A trace of bars, one for each minute."""
    if not points:
        return {"type": "bar"}
    return {"type": "bar", "x0": chart_marks.time(points, 0), "dx": MINUTE_MS}

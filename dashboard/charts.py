"""Charts of the last hour, as plain Plotly JSON: {"data": [...], "layout": {...}}.

The browser draws them (static/dashboard.js) and adds what only it knows: its colors of text and
background, and its local time. The colors here are Okabe-Ito's, which people with any color vision
tell apart; each has a pattern of its own besides.

A minute in which the limiter was open has no bar: what was counted in it is not all that was sent.
A hatched band takes its place and says how many requests were forwarded undecided.
"""

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from dashboard import chart_marks
from dashboard.chart_layout import Figure, Json, Scale, layout, scale
from graphql_api.model import UsagePoint

Look = tuple[str, str, str, str]
"""Of a trace of bars: its id (for a level the field of DeniedCounts), legend, color, pattern."""

ADMITTED: Look = ("admitted", "admitted", "#0072B2", "")
TOKENS: Look = ("tokens", "tokens", "#009E73", "")
LEVELS: tuple[Look, ...] = (
    ("agent", "denied: agent", "#D55E00", "/"),
    ("org", "denied: organization", "#E69F00", "\\"),
    ("platform", "denied: platform", "#CC79A7", "x"),
    ("tokens", "denied: token ceiling", "#56B4E9", "."),
)
"""From the bottom of the stack to its top."""
MINUTE_MS = 60_000
SETTLED, RUNNING = 1.0, 0.55  # opacity of a bar


def requests_figure(points: Sequence[UsagePoint], *, limit: int | None, name: str) -> Figure:
    """Requests per minute of `name`: admitted, and denied by each level on top.

    `points` are consecutive minutes, of which the last is running. `limit` is in requests per
    minute, None: there is none.
    """
    admitted = [point.requests for point in points]
    denied = {
        level: counts
        for level, *_ in LEVELS
        if any(counts := [int(getattr(point.denied, level)) for point in points])
    }
    peak = max(map(sum, zip(admitted, *denied.values(), strict=True)), default=0)
    bars = [_bar(points, admitted, ADMITTED)]
    bars += [_bar(points, denied[look[0]], look) for look in LEVELS if look[0] in denied]
    figure = _figure("Requests per minute", name, points, bars, scale(max(peak, limit or 0)))
    if limit is not None:
        figure["layout"]["shapes"].append(chart_marks.limit_line(limit))
        figure["layout"]["annotations"].append(chart_marks.limit_label(limit))
    return figure


def tokens_figure(points: Sequence[UsagePoint], *, name: str) -> Figure:
    """Tokens per minute of `name`, in the minute in which they were settled. `points` as above."""
    tokens = [point.tokens for point in points]
    bars = [_bar(points, tokens, TOKENS)]
    return _figure("Tokens per minute", name, points, bars, scale(max(tokens, default=0)))


def embedded(figure: Figure) -> Markup:
    """The figure as JSON that can stand in a `<script type="application/json">`."""
    text = msgspec.json.encode(figure).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - nothing is left in it that could end the element


def _figure(
    title: str, name: str, points: Sequence[UsagePoint], bars: list[Json], height: Scale
) -> Figure:
    shown = layout(title, name, height)
    if points:
        shown["xaxis"]["range"] = [
            chart_marks.time(points, -0.5),
            chart_marks.time(points, len(points) - 0.5),
        ]
        shown["shapes"] = [chart_marks.running_band(points)]
        shown["annotations"] = [chart_marks.running_label(points)]
    else:
        shown["xaxis"]["visible"] = False
    is_open = any(point.open for point in points)
    if not is_open and not any(any(bar["y"]) for bar in bars):
        shown["annotations"].append(chart_marks.nothing(is_known=bool(points)))
    shown["annotations"] += chart_marks.open_labels(points)
    return {"data": [*bars, _open_bands(points, height.top)] if is_open else bars, "layout": shown}


def _bar(points: Sequence[UsagePoint], counts: Sequence[int], look: Look) -> Json:
    uid, name, color, pattern = look
    known = [None if point.open else count for point, count in zip(points, counts, strict=True)]
    return {
        **_minutes(points),
        "uid": uid,
        "name": name,
        "y": known,
        "marker": {
            "color": color,
            "opacity": [SETTLED] * (len(points) - 1) + [RUNNING],
            "pattern": {"shape": pattern, "fillmode": "overlay", "size": 6, "solidity": 0.25},
        },
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

"""What all charts have in common: title, axes, legend, and the height of the scale."""

import html
from typing import Any, NamedTuple

from dashboard.formatting import NO_BREAK

Figure = dict[str, Any]
Json = dict[str, Any]

HEIGHT_PX = 320
NAME_CHARACTERS = 20  # what a narrow screen has room for
LINES = 4  # at most so many lines across the chart, besides that at 0
ABBREVIATED_FROM = 10_000


class Scale(NamedTuple):
    """The range of a count's axis, from 0 to `top`, with a line at each `step`."""

    top: int
    step: int


def scale(most: int) -> Scale:
    """A scale that has room for `most` and a label above it; steps are 1, 2 or 5, and zeros."""
    top = most * 6 // 5 + 1
    magnitude = 10 ** (len(str(top // LINES or 1)) - 1)
    steps = (factor * magnitude for factor in (1, 2, 5, 10))
    return Scale(top, next(step for step in steps if top // step <= LINES))


def literal(text: str) -> str:
    """Text that Plotly shows as it is: it reads tags, entities, $TeX$ and %{templates}."""
    return html.escape(text, quote=False).replace("$", "&#36;").replace("%", "&#37;")


def layout(title: str, name: str, height: Scale) -> Json:
    """The layout of a chart of `name`, without what chart_marks.py draws into it."""
    shown = name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…"
    return {
        "title": {
            "text": f"{title}: {literal(shown)}",
            "font": {"size": 14},
            "x": 0,
            "xref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 8},
        },
        "height": HEIGHT_PX,
        "margin": {"l": 18, "r": 18, "t": 44, "b": 8},  # half of a tick label fits at either side
        "separators": f".{NO_BREAK}",
        "barmode": "stack",
        "bargap": 0.15,
        "hovermode": "x unified",
        "uirevision": "kept",  # what the reader zoomed to or hid stays so at each update
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xref": "container",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
            "traceorder": "normal",
            "font": {"size": 12},
        },
        "xaxis": {
            "type": "date",
            "tickformat": "%H:%M",
            "ticklabelstandoff": 4,
            "unifiedhovertitle": {"text": "%{x|%H:%M} UTC"},
            "title": {"text": "time of day, UTC", "standoff": 6, "font": {"size": 12}},
            "automargin": True,
        },
        "yaxis": {
            "range": [0, height.top],
            "dtick": height.step,
            "tickformat": "~s" if height.top >= ABBREVIATED_FROM else ",d",
            "hoverformat": ",d",
            "fixedrange": True,
            "automargin": True,
        },
        "shapes": [],
        "annotations": [],
    }

"""What is written into a chart: the limit, the running minute, where the limiter was open."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby

from dashboard.chart_layout import Json
from dashboard.formatting import grouped
from graphql_api.model import UsagePoint


def time(points: Sequence[UsagePoint], place: float) -> str:
    """The time at a place among the minutes, which are centered on 0, 1, 2...; in UTC."""
    moment = points[0].timestamp + timedelta(minutes=place)
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def limit_line(limit: int) -> Json:
    """A line from side to side."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": limit,
        "y1": limit,
        "line": {"dash": "dash", "width": 1.5},
    }


def limit_label(limit: int) -> Json:
    """Above the beginning of the line."""
    return {
        "text": f"limit {grouped(limit)}" if limit else "limit 0: nothing is admitted",
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": limit,
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }


def running_band(begin: str, end: str) -> Json:
    """Behind the last minute, hour or day."""
    return {
        "type": "rect",
        "x0": begin,
        "x1": end,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "fillcolor": "rgba(128,128,128,0.2)",
        "line": {"width": 0},
    }


def running_label(end: str) -> Json:
    """Above the band."""
    return {
        "text": "running",
        "x": end,
        "xanchor": "right",
        "y": 1,
        "yref": "paper",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11},
    }


def open_labels(points: Sequence[UsagePoint]) -> list[Json]:
    """One for each run of minutes in which the limiter was open, upright, above most bars."""
    labels = []
    runs = groupby(enumerate(points), key=lambda place: place[1].open > 0)
    for run in (list(members) for is_open, members in runs if is_open):
        count = sum(point.open for _, point in run)
        labels.append(
            {
                "text": f"{grouped(count)} undecided",
                "x": time(points, (run[0][0] + run[-1][0]) / 2),
                "y": 1,
                "yref": "paper",
                "yanchor": "top",
                "textangle": -90,
                "showarrow": False,
                "font": {"size": 11},
            }
        )
    return labels


def nothing(text: str) -> Json:
    """What an empty chart says."""
    return {
        "text": text,
        "x": 0.5,
        "xref": "paper",
        "y": 0.5,
        "yref": "paper",
        "showarrow": False,
        "font": {"size": 14},
    }

"""Charts of hours or days, as plain Plotly JSON, in the looks of those of the last hour.

A span is drawn from its beginning to its end. The last one is still running.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from dashboard import chart_marks
from dashboard.chart_layout import Figure, Json, layout, scale
from dashboard.charts import ADMITTED, ESTIMATED, REPORTED, Look, marker
from db.ledger import UsageSpan
from graphql_api.model import UsageHistory

DENIED: Look = ("denied", "denied", "#D55E00", "/")
OPENED: Look = ("opened", "undecided", "#808080", "x")
_LENGTH = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
_FORMATS = {"day": "%d %b", "hour": "%d %b %H:%M"}
_TITLES = {"day": "day, UTC", "hour": "time of day, UTC"}


def requests_figure(told: UsageHistory, *, name: str) -> Figure:
    """Requests of `name`: admitted, denied by any level, and forwarded without a decision."""
    counts = {
        ADMITTED: [span.requests for span in told.spans],
        DENIED: [span.denied for span in told.spans],
        OPENED: [span.opened for span in told.spans],
    }
    return _figure(f"Requests per {told.by}", name, told, counts)


def tokens_figure(told: UsageHistory, *, name: str) -> Figure:
    """Tokens of `name`: what was reported, and what was estimated on top."""
    estimated = [min(span.estimated, span.tokens) for span in told.spans]
    reported = [span.tokens - each for span, each in zip(told.spans, estimated, strict=True)]
    counts = {REPORTED: reported, ESTIMATED: estimated}
    return _figure(f"Tokens per {told.by}", name, told, counts)


def _figure(title: str, name: str, told: UsageHistory, counts: dict[Look, list[int]]) -> Figure:
    """A stack for each span, without the kinds that there were none of."""
    spans, first = told.spans, next(iter(counts))
    shown = {look: each for look, each in counts.items() if look == first or any(each)}
    sums = [sum(stack) for stack in zip(*shown.values(), strict=True)]
    drawn = layout(title, name, scale(max(sums)))
    length = _LENGTH[told.by]
    begin, end = spans[0].start, spans[-1].start + length
    drawn["xaxis"] |= {
        "range": [_text(begin), _text(end)],
        "tickformat": "%H:%M\n%d %b" if told.by == "hour" else "%d %b",
        "unifiedhovertitle": {"text": f"%{{x|{_FORMATS[told.by]}}} UTC"},
        "title": drawn["xaxis"]["title"] | {"text": _TITLES[told.by]},
    }
    drawn["shapes"] = [chart_marks.running_band(_text(spans[-1].start), _text(end))]
    drawn["annotations"] = [chart_marks.running_label(_text(end))]
    if not any(sums):
        drawn["annotations"].append(chart_marks.nothing("Nothing in this time"))
    return {"data": [_bar(spans, look, each, length) for look, each in shown.items()],
            "layout": drawn}  # fmt: skip


def _bar(spans: Sequence[UsageSpan], look: Look, counts: list[int], length: timedelta) -> Json:
    uid, name, color, pattern = look
    return {
        "type": "bar",
        "uid": uid,
        "name": name,
        "x": [_text(span.start) for span in spans],
        "y": counts,
        "offset": 0,
        "width": length.total_seconds() * 1000 * 0.85,
        "marker": marker(color, pattern, len(spans)),
    }


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"

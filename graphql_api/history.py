"""Usage beyond the last hour: which hours or days are asked for, and all of them, idle ones too."""

from datetime import UTC, datetime, timedelta

from db.ledger import Span, UsageSpan
from graphql_api.errors import BadInput

KEPT = timedelta(days=396)
"""Thirteen months; what is asked for before that is not there any more."""
USUAL = {"day": timedelta(days=31), "hour": timedelta(hours=48)}
"""How much is told where `from` is not given."""
_STEP = {"day": timedelta(days=1), "hour": timedelta(hours=1)}

Period = tuple[Span, datetime, datetime]
"""What the spans are, the beginning of the first one, and the end of the last one."""


def period(now: datetime, by: object = None, since: object = None, until: object = None) -> Period:
    """Accept what was asked: `by` hour or day (None: day), from and to as RFC 3339 or None.

    The period is widened to whole spans, and cut to what is kept and has come.
    """
    if by not in (None, "hour", "day"):
        raise BadInput("by", "must be hour or day")
    span: Span = "hour" if by == "hour" else "day"
    oldest = now - KEPT
    end = max(oldest, min(_moment("to", until) or now, now))
    begin = max(oldest, _moment("from", since) or end - USUAL[span])
    last = _whole(end, span)
    return span, _whole(begin, span), last if last == end else last + _STEP[span]


def filled(found: list[UsageSpan], asked: Period) -> tuple[UsageSpan, ...]:
    """Every span of the period, the oldest first; what was not counted is zero."""
    span, begin, end = asked
    counted = {each.start: each for each in found}
    spans = []
    while begin < end:
        spans.append(counted.get(begin) or UsageSpan(begin))
        begin += _STEP[span]
    return tuple(spans)


def _whole(moment: datetime, span: Span) -> datetime:
    hour = moment.replace(minute=0, second=0, microsecond=0)
    return hour if span == "hour" else hour.replace(hour=0)


def _moment(field: str, value: object) -> datetime | None:
    if value is None:
        return None
    try:
        moment = (
            value if isinstance(value, datetime) else datetime.fromisoformat(str(value).upper())
        )
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(field, "must be a time, such as 2026-11-30T00:00:00Z") from None

"""Where the month is heading: this month's average pace, carried on to the month's end.

Pure. The month is the UTC calendar month, as the ceiling's. The pace is that since the month began,
or since the organization was created, where that is later. In the first hours it says too little.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

TOO_EARLY = timedelta(hours=6)
"""Before so much of the month has been seen nothing is projected."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Tokens at the month's end if it goes on like this.

    `reached_at`: when the ceiling is reached; None if not in this month, if it is reached already,
    or if there is none.
    """

    tokens: int
    reached_at: datetime | None


def projection(
    used: int, ceiling: int | None, *, created_at: datetime, now: datetime
) -> Projection | None:
    """Carry the use of this month on. None: too little of the month has been seen."""
    start, end = month_of(now)
    since = max(start, created_at)
    seen = now - since
    if seen < TOO_EARLY:
        return None
    tokens = used + round(used * ((end - now) / seen))
    if ceiling is None or not used < ceiling < tokens:
        return Projection(tokens, None)
    return Projection(tokens, now + seen * ((ceiling - used) / used))


def month_of(moment: datetime) -> tuple[datetime, datetime]:
    """The beginning of its UTC month, and that of the next."""
    start = moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start, (start + timedelta(days=31)).replace(day=1)

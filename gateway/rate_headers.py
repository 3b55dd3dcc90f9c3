"""What a client is told of its limits, as header fields.

`RateLimit` and `RateLimit-Policy` are those of draft-ietf-httpapi-ratelimit-headers: structured
fields, whole numbers, `t` = seconds until there is room for more. Beside them each provider
family's own fields, which its SDK and its users know: there `reset` is when everything is free.
The platform's limit is told only where it is what denied.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil
from operator import attrgetter
from typing import NamedTuple

from gateway.settings import Dialect
from lua.decision import Decision

Header = tuple[str, str]

WINDOW_S = 60
_DAY_MS = 86_400_000
_PREFIXES: dict[Dialect, bytes] = {
    "openai": b"x-ratelimit-",
    "anthropic": b"anthropic-ratelimit-",
}
_REMAINING = attrgetter("remaining")


class _Level(NamedTuple):
    """One limit: its label, what is left of it, when there is more, and when all is free."""

    label: str
    limit: int
    remaining: int
    more_in_ms: int
    reset_in_ms: int


class _Month(NamedTuple):
    """A UTC month: its first moment, and that of the next one."""

    start: datetime
    end: datetime
    end_ms: int
    seconds: int


def month_end(now_ms: int) -> datetime:
    """The first moment of the next UTC month."""
    return _month_of_day(now_ms // _DAY_MS).end


def month_start(now_ms: int) -> datetime:
    """The first moment of the UTC month."""
    return _month_of_day(now_ms // _DAY_MS).start


@lru_cache(maxsize=4)
def _month_of_day(day: int) -> _Month:
    """The month of a day, which is counted from 1970."""
    start = datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).replace(day=1)
    end = (start + timedelta(days=31)).replace(day=1)
    return _Month(start, end, int(end.timestamp()) * 1000, int((end - start).total_seconds()))


def rate_headers(decision: Decision, dialect: Dialect, *, with_family: bool = True) -> list[Header]:
    """All fields for one decision; none where no decision was made."""
    if decision.is_open:
        return []
    requests = _request_levels(decision)
    tokens = _tokens(decision)
    levels = requests if tokens is None else [*requests, tokens]
    if not levels:
        return []
    items = [
        f'"{label}";r={remaining};t={-(-more_ms // 1000)}'
        for label, _, remaining, more_ms, _ in levels
    ]
    month_s = _month_of_day(decision.now_ms // _DAY_MS).seconds
    headers = [
        ("RateLimit-Policy", _policy(tuple([level[:2] for level in levels]), month_s)),
        ("RateLimit", ", ".join(items)),
    ]
    if with_family:
        if requests:
            tightest = min(requests, key=_REMAINING)
            headers += _family_headers("requests", tightest, dialect, decision.now_ms)
        if tokens is not None:
            headers += _family_headers("tokens", tokens, dialect, decision.now_ms)
    return headers


def is_family_header(name: bytes, dialect: Dialect) -> bool:
    """Whether a provider of this family states its own limits in a field of that name."""
    return name.startswith(_PREFIXES[dialect])


@lru_cache(maxsize=1024)
def _policy(limits: tuple[tuple[str, int], ...], month_s: int) -> str:
    """The limits by label; few organizations have limits of their own, so few differ."""
    return ", ".join(
        f'"{label}";q={limit};qu="tokens";w={month_s}'
        if label == "tokens"
        else f'"{label}";q={limit};w={WINDOW_S}'
        for label, limit in limits
    )


def _request_levels(decision: Decision) -> list[_Level]:
    subject = decision.subject
    found = []
    for label, limit, used, frees_ms, reset_ms in (
        ("agent", subject.agent_rpm, decision.agent_used, decision.agent_frees_ms,
         decision.agent_reset_ms),
        ("org", subject.org_rpm, decision.org_used, decision.org_frees_ms, decision.org_reset_ms),
    ):  # fmt: skip
        if limit is not None:
            more_ms = frees_ms if used < limit or decision.admitted else _until_passes(decision)
            found.append(_Level(label, limit, max(0, limit - used), more_ms, reset_ms))
    if decision.level == "global" and subject.global_rpm is not None:
        wait_ms = _until_passes(decision)
        found.append(_Level("global", subject.global_rpm, 0, wait_ms, wait_ms))
    return found


def _until_passes(decision: Decision) -> int:
    """Ms until there is room: the month's end where waiting within the month does not help."""
    if decision.retry_after_ms is not None:
        return decision.retry_after_ms
    return _month_left_ms(decision.now_ms)


def _month_left_ms(now_ms: int) -> int:
    return _month_of_day(now_ms // _DAY_MS).end_ms - now_ms


def _tokens(decision: Decision) -> _Level | None:
    ceiling = decision.subject.ceiling
    if ceiling is None:
        return None
    left_ms = _month_left_ms(decision.now_ms)
    remaining = max(0, ceiling - decision.tokens_used - decision.tokens_held)
    return _Level("tokens", ceiling, remaining, left_ms, left_ms)


def _family_headers(unit: str, level: _Level, dialect: Dialect, now_ms: int) -> list[Header]:
    """One limit in the provider's own fields."""
    if dialect == "openai":
        return [
            (f"x-ratelimit-limit-{unit}", str(level.limit)),
            (f"x-ratelimit-remaining-{unit}", str(level.remaining)),
            (f"x-ratelimit-reset-{unit}", _duration(level.reset_in_ms)),
        ]
    return [
        (f"anthropic-ratelimit-{unit}-limit", str(level.limit)),
        (f"anthropic-ratelimit-{unit}-remaining", str(level.remaining)),
        (f"anthropic-ratelimit-{unit}-reset", _moment(now_ms + level.reset_in_ms)),
    ]


def _duration(ms: int) -> str:
    """As OpenAI writes it: 12ms, 1s, 6m0s, 1h0m0s."""
    if 0 < ms < 1000:  # noqa: PLR2004 - a second
        return f"{ms}ms"
    minutes, seconds = divmod(-(-ms // 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _moment(ms: int) -> str:
    """As Anthropic writes it: RFC 3339, UTC, whole seconds, not before the true moment."""
    return datetime.fromtimestamp(ceil(ms / 1000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

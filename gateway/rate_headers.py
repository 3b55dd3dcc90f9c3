"""What a client is told of its limits, as header fields.

`RateLimit` and `RateLimit-Policy` are those of draft-ietf-httpapi-ratelimit-headers: structured
fields, whole numbers, `t` = seconds until there is room for more. Beside them each provider
family's own fields, which its SDK and its users know: there `reset` is when everything is free.
The platform's limit is told only where it is what denied.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from gateway.settings import Dialect
from lua.decision import Decision

Header = tuple[str, str]

WINDOW_S = 60
_DAY_MS = 86_400_000
_FAMILY_PREFIXES: dict[Dialect, str] = {
    "openai": "x-ratelimit-",
    "anthropic": "anthropic-ratelimit-",
}

_RAW_PREFIXES = {dialect: prefix.encode() for dialect, prefix in _FAMILY_PREFIXES.items()}


class _Level(NamedTuple):
    """One limit: its label, units per window, the window's length, what is left, and when."""

    label: str
    limit: int
    window_s: int
    remaining: int
    more_in_ms: int
    reset_in_ms: int
    unit: str = "requests"


def month_end(now_ms: int) -> datetime:
    """The first moment of the next UTC month."""
    return _month_of_day(now_ms // _DAY_MS)[1]


def month_start(now_ms: int) -> datetime:
    """The first moment of the UTC month."""
    return _month_of_day(now_ms // _DAY_MS)[0]


@lru_cache(maxsize=4)
def _month_of_day(day: int) -> tuple[datetime, datetime]:
    """The month of a day since 1970: its first moment, and that of the next one."""
    start = datetime.fromtimestamp(day * _DAY_MS / 1000, UTC).replace(day=1)
    return start, (start + timedelta(days=31)).replace(day=1)


def rate_headers(decision: Decision, dialect: Dialect, *, with_family: bool = True) -> list[Header]:
    """All fields for one decision; none where no decision was made."""
    if decision.is_open:
        return []
    levels = _levels(decision)
    if not levels:
        return []
    policies, items = [], []
    for level in levels:
        unit = "" if level.unit == "requests" else f';qu="{level.unit}"'
        policies.append(f'"{level.label}";q={level.limit}{unit};w={level.window_s}')
        items.append(f'"{level.label}";r={level.remaining};t={ceil(level.more_in_ms / 1000)}')
    return [
        ("RateLimit-Policy", ", ".join(policies)),
        ("RateLimit", ", ".join(items)),
        *(_family_headers(levels, dialect, decision.now_ms) if with_family else ()),
    ]


def is_family_header(name: bytes, dialect: Dialect) -> bool:
    """Whether a provider of this family states its own limits in a field of that name."""
    return name.startswith(_RAW_PREFIXES[dialect])


def _levels(decision: Decision) -> list[_Level]:
    subject = decision.subject
    found = []
    for label, limit, used, frees_ms, reset_ms in (
        ("agent", subject.agent_rpm, decision.agent_used, decision.agent_frees_ms,
         decision.agent_reset_ms),
        ("org", subject.org_rpm, decision.org_used, decision.org_frees_ms, decision.org_reset_ms),
    ):  # fmt: skip
        if limit is not None:
            more_ms = _until_passes(decision) if used >= limit and not decision.admitted else None
            found.append(
                _Level(label, limit, WINDOW_S, max(0, limit - used),
                       frees_ms if more_ms is None else more_ms, reset_ms)
            )  # fmt: skip
    if decision.level == "global" and subject.global_rpm is not None:
        wait_ms = _until_passes(decision)
        found.append(_Level("global", subject.global_rpm, WINDOW_S, 0, wait_ms, wait_ms))
    if subject.ceiling is not None:
        found.append(_tokens(decision, subject.ceiling))
    return found


def _until_passes(decision: Decision) -> int:
    """Ms until there is room: the month's end where waiting within the month does not help."""
    if decision.retry_after_ms is not None:
        return decision.retry_after_ms
    return _ms_until(month_end(decision.now_ms), decision.now_ms)


def _tokens(decision: Decision, ceiling: int) -> _Level:
    end = month_end(decision.now_ms)
    left_ms = _ms_until(end, decision.now_ms)
    return _Level(
        "tokens",
        ceiling,
        int((end - month_start(decision.now_ms)).total_seconds()),
        max(0, ceiling - decision.tokens_used - decision.tokens_held),
        left_ms,
        left_ms,
        unit="tokens",
    )


def _ms_until(moment: datetime, now_ms: int) -> int:
    return int(moment.timestamp() * 1000) - now_ms


def _family_headers(levels: list[_Level], dialect: Dialect, now_ms: int) -> list[Header]:
    """The tightest request limit and the token ceiling, in the provider's own fields."""
    prefix = _FAMILY_PREFIXES[dialect]
    spelled: Callable[[str, str], str] = (
        (lambda unit, figure: f"{prefix}{figure}-{unit}")
        if dialect == "openai"
        else (lambda unit, figure: f"{prefix}{unit}-{figure}")
    )
    requests = [level for level in levels if level.unit == "requests"]
    headers = []
    for level in (
        *([min(requests, key=lambda level: level.remaining)] if requests else []),
        *(level for level in levels if level.unit == "tokens"),
    ):
        reset = (
            _duration(level.reset_in_ms)
            if dialect == "openai"
            else _moment(now_ms + level.reset_in_ms)
        )
        headers += [
            (spelled(level.unit, "limit"), str(level.limit)),
            (spelled(level.unit, "remaining"), str(level.remaining)),
            (spelled(level.unit, "reset"), reset),
        ]
    return headers


def _duration(ms: int) -> str:
    """As OpenAI writes it: 12ms, 1s, 6m0s, 1h0m0s."""
    if 0 < ms < 1000:  # noqa: PLR2004 - a second
        return f"{ms}ms"
    minutes, seconds = divmod(ceil(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _moment(ms: int) -> str:
    """As Anthropic writes it: RFC 3339, UTC, whole seconds, not before the true moment."""
    return datetime.fromtimestamp(ceil(ms / 1000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

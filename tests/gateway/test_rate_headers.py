"""What a client is told of its limits: valid structured fields, whole numbers, true times."""

from datetime import UTC, datetime
from typing import Any

import http_sf
import pytest

from gateway.rate_headers import is_family_header, month_end, month_start, rate_headers
from gateway.responses import denied
from gateway.settings import Dialect
from lua.decision import Decision, Reservation, Subject

NOW = int(datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC).timestamp() * 1000)
MONTH_LEFT_S = 12 * 3600


def decision(
    agent: int | None = 60,
    org: int | None = 600,
    platform: int | None = 6000,
    ceiling: int | None = 100_000,
    **numbers: Any,
) -> Decision:
    """Admitted, a little used, unless `numbers` say otherwise."""
    subject = Subject.of(("o", "a"), (agent, org, platform), ceiling)
    found: dict[str, Any] = {
        "admitted": True,
        "now_ms": NOW,
        "agent_used": 48,
        "org_used": 100,
        "global_used": 1000,
        "tokens_used": 40_000,
        "tokens_held": 10_000,
        "agent_frees_ms": 33_001,
        "org_frees_ms": 500,
        "agent_reset_ms": 60_500,
        "org_reset_ms": 61_000,
        **numbers,
    }
    return Decision(subject, Reservation(subject, "r"), **found)


def denial(level: str, retry_after_ms: int | None, **numbers: Any) -> Decision:
    return decision(admitted=False, level=level, retry_after_ms=retry_after_ms, **numbers)


def fields(given: Decision, dialect: Dialect = "openai") -> dict[str, str]:
    """Each field once, by its name in lower case."""
    headers = rate_headers(given, dialect)
    found = {name.lower(): value for name, value in headers}
    assert len(found) == len(headers)
    return found


def parsed(field: str) -> dict[str, dict[str, Any]]:
    """A list of strings with parameters, as RFC 9651 reads it."""
    items: Any = http_sf.parse(field.encode(), tltype="list")
    return {label: dict(parameters) for label, parameters in items}


def limits(given: Decision) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """`RateLimit-Policy` and `RateLimit`, which speak of the same limits in the same order."""
    found = fields(given)
    policies, items = parsed(found["ratelimit-policy"]), parsed(found["ratelimit"])
    assert list(policies) == list(items)
    return policies, items


def test_every_limit_is_told_with_what_is_left() -> None:
    """Agent, organization and tokens: quota, window, remaining, and seconds until there is more."""
    policies, items = limits(decision())
    assert policies == {
        "agent": {"q": 60, "w": 60},
        "org": {"q": 600, "w": 60},
        "tokens": {"q": 100_000, "qu": "tokens", "w": 30 * 86_400},
    }
    assert items == {
        "agent": {"r": 12, "t": 34},
        "org": {"r": 500, "t": 1},
        "tokens": {"r": 50_000, "t": MONTH_LEFT_S},
    }


def test_what_has_no_limit_is_not_told() -> None:
    """An absent limit is absent; without any there is no field at all."""
    assert list(limits(decision(agent=None))[0]) == ["org", "tokens"]
    assert list(limits(decision(org=None, ceiling=None))[0]) == ["agent"]
    assert rate_headers(decision(None, None, 6000, None), "openai") == []


def test_an_open_limiter_tells_nothing() -> None:
    """Where nothing was decided there is no number to tell."""
    assert rate_headers(decision(is_open=True), "openai") == []
    assert rate_headers(decision(is_open=True), "anthropic") == []


@pytest.mark.parametrize("level", [None, "agent", "org", "tokens"])
def test_the_platforms_figures_are_its_own(level: str | None) -> None:
    """The platform's capacity is nobody's business unless it is what denied."""
    given = decision() if level is None else denial(level, 1000)
    for dialect in ("openai", "anthropic"):
        text = repr(rate_headers(given, dialect))
        assert "global" not in text
        assert "6000" not in text


def test_the_platform_is_told_when_it_denied() -> None:
    """Then its limit is what the client has to know."""
    policies, items = limits(denial("global", 7001, global_used=6000))
    assert policies["global"] == {"q": 6000, "w": 60}
    assert items["global"] == {"r": 0, "t": 8}


@pytest.mark.parametrize("level", ["agent", "org", "global"])
@pytest.mark.parametrize("wait_ms", [1, 999, 1000, 1001, 59_999, 61_000])
def test_retry_after_is_the_true_time_and_never_before_the_window(level: str, wait_ms: int) -> None:
    """Whole seconds, at least 1, rounded up; `t` of what denied is not later than that."""
    used = {"agent_used": 60, "org_used": 600, "global_used": 6000}
    given = denial(level, wait_ms, **used)
    headers = dict(denied(given, 10, "openai").fields)
    retry_after = int(headers["Retry-After"])
    assert retry_after >= 1
    assert wait_ms <= retry_after * 1000 < wait_ms + 1000
    assert headers["retry-after-ms"] == str(wait_ms)
    assert limits(given)[1][level]["t"] <= retry_after


@pytest.mark.parametrize("level", ["agent", "org", "tokens"])
def test_where_waiting_does_not_help_no_time_is_told(level: str) -> None:
    """A limit of 0 and the month's ceiling: SDKs are told not to retry, rather than to sleep."""
    given = denial(level, None, agent_used=60, org_used=600)
    headers = dict(denied(given, 10, "openai").fields)
    assert "Retry-After" not in headers
    assert "retry-after-ms" not in headers
    assert headers["x-should-retry"] == "false"
    assert limits(given)[1][level]["t"] == MONTH_LEFT_S


def test_nothing_is_negative() -> None:
    """A limit that was lowered below what is used leaves nothing, not less."""
    given = denial(
        "agent", 5000, agent=10, org=20, ceiling=5, agent_used=48, org_used=100, tokens_used=900
    )
    items = limits(given)[1]
    assert [items[label]["r"] for label in ("agent", "org", "tokens")] == [0, 0, 0]
    for dialect in ("openai", "anthropic"):
        for name, value in fields(given, dialect).items():
            assert "-" not in value or name.endswith("-reset"), (name, value)


@pytest.mark.parametrize(
    ("day", "days", "following"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), 31, datetime(2026, 2, 1, tzinfo=UTC)),
        (datetime(2026, 2, 28, 23, 59, 59, 999_000, UTC), 28, datetime(2026, 3, 1, tzinfo=UTC)),
        (datetime(2028, 2, 29, 1, tzinfo=UTC), 29, datetime(2028, 3, 1, tzinfo=UTC)),
        (datetime(2026, 4, 30, 1, tzinfo=UTC), 30, datetime(2026, 5, 1, tzinfo=UTC)),
        (datetime(2026, 12, 31, 23, tzinfo=UTC), 31, datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_the_tokens_window_is_this_utc_month(day: datetime, days: int, following: datetime) -> None:
    """As long as the month is, until the first moment of the next one."""
    now_ms = int(day.timestamp() * 1000)
    policies, items = limits(decision(now_ms=now_ms))
    assert policies["tokens"]["w"] == days * 86_400
    assert month_end(now_ms) == following
    assert month_start(now_ms) == day.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    left_ms = int(following.timestamp() * 1000) - now_ms
    assert left_ms <= items["tokens"]["t"] * 1000 < left_ms + 1000


def test_openai_is_told_in_its_own_fields() -> None:
    """The tightest request limit and the tokens, with durations until all is free again."""
    found = fields(decision())
    assert {name: value for name, value in found.items() if name.startswith("x-")} == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "12",
        "x-ratelimit-reset-requests": "1m1s",
        "x-ratelimit-limit-tokens": "100000",
        "x-ratelimit-remaining-tokens": "50000",
        "x-ratelimit-reset-tokens": "12h0m0s",
    }


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (999, "999ms"),
        (1000, "1s"),
        (1001, "2s"),
        (59_000, "59s"),
        (59_001, "1m0s"),
        (60_000, "1m0s"),
        (360_000, "6m0s"),
    ],
)
def test_openai_durations_are_never_too_short(ms: int, text: str) -> None:
    """As OpenAI writes them, rounded up to a whole second from the first second on."""
    assert fields(decision(agent_reset_ms=ms))["x-ratelimit-reset-requests"] == text


def test_anthropic_is_told_in_its_own_fields() -> None:
    """Unit before figure, and moments in RFC 3339 that are never too early."""
    found = fields(decision(agent_reset_ms=60_500), "anthropic")
    assert {name: value for name, value in found.items() if name.startswith("anthropic-")} == {
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "12",
        "anthropic-ratelimit-requests-reset": "2026-11-30T12:01:01Z",
        "anthropic-ratelimit-tokens-limit": "100000",
        "anthropic-ratelimit-tokens-remaining": "50000",
        "anthropic-ratelimit-tokens-reset": "2026-12-01T00:00:00Z",
    }


def test_the_tightest_limit_is_the_one_told() -> None:
    """Where the organization has less left than the agent, that is what counts."""
    found = fields(decision(agent_used=1, org_used=599, org_reset_ms=2000))
    assert found["x-ratelimit-limit-requests"] == "600"
    assert found["x-ratelimit-remaining-requests"] == "1"
    assert found["x-ratelimit-reset-requests"] == "2s"


def test_a_familys_fields_are_known_by_their_prefix() -> None:
    """An upstream's own limits are told from other fields, and from the other family's."""
    assert is_family_header(b"x-ratelimit-limit-requests", "openai")
    assert is_family_header(b"anthropic-ratelimit-tokens-reset", "anthropic")
    assert not is_family_header(b"x-ratelimit-limit-requests", "anthropic")
    assert not is_family_header(b"x-request-id", "openai")

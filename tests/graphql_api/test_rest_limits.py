"""Limits, usage and history over REST, on real servers."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from operators import DEFAULTS, World, world
from rest_server import AGENT_LIMITS, CHANGES, ORGANIZATION_LIMITS, Rest, path_to, serving
from servers import StartRedis

STATUS = {
    *("organization_id", "agent_id"),
    *("org_requests_per_minute", "agent_requests_per_minute", "org_tokens_per_month", "overrides"),
    *("current_minute_requests", "current_month_tokens", "held_tokens", "in_flight", "reset_at"),
    *("version", "updated_at", "updated_by"),
}
LIVE = (
    *("current_minute_requests", "current_month_tokens", "held_tokens", "in_flight", "reset_at"),
)


@pytest.mark.parametrize("path", [ORGANIZATION_LIMITS, AGENT_LIMITS])
async def test_status_has_the_limits_in_force_and_live_numbers(rest: Rest, path: str) -> None:
    """Where nothing is set, the platform's defaults are in force, and idle counters are zero."""
    status = await rest.read(path)

    assert set(status) == STATUS
    assert status["organization_id"] == rest.world.ours.id
    assert status["agent_id"] == (rest.world.ours.agent_id if path == AGENT_LIMITS else None)
    assert (
        status["org_requests_per_minute"],
        status["agent_requests_per_minute"],
        status["org_tokens_per_month"],
    ) == (DEFAULTS.org_rpm, DEFAULTS.agent_rpm, DEFAULTS.org_tokens_per_month)
    assert status["overrides"] == {"requests_per_minute": None, "tokens_per_month": None}
    assert [status[name] for name in LIVE[:4]] == [0, 0, 0, 0]
    reset_at = datetime.fromisoformat(status["reset_at"])
    assert abs(reset_at - datetime.now(UTC)) < timedelta(seconds=30)


async def test_limit_of_the_platform_is_for_its_operators(rest: Rest) -> None:
    """Capacity that is not theirs is not even named to an organization's operators."""
    for path in (ORGANIZATION_LIMITS, AGENT_LIMITS):
        status = await rest.read(path, role="platform")

        assert status["global_requests_per_minute"] == DEFAULTS.global_rpm
        assert set(status) == STATUS | {"global_requests_per_minute"}


async def test_patch_keeps_what_is_absent_and_inherits_what_is_null(rest: Rest) -> None:
    """The merge patch: set both, change one, give one back, change nothing, one after another."""
    seen = []
    for patch in (
        {"requests_per_minute": 10, "tokens_per_month": 0},
        {"requests_per_minute": 9007199254740991},
        {"tokens_per_month": None},
        {},
        {"requests_per_minute": None},
    ):
        answer = await rest.change(ORGANIZATION_LIMITS, patch)
        assert answer.status == 200
        assert answer.body == await rest.read(ORGANIZATION_LIMITS) | {
            name: answer.body[name] for name in LIVE
        }
        seen.append((answer.body["org_requests_per_minute"], answer.body["org_tokens_per_month"]))

    assert seen == [
        (10, 0),
        (9007199254740991, 0),
        (9007199254740991, DEFAULTS.org_tokens_per_month),
        (9007199254740991, DEFAULTS.org_tokens_per_month),
        (DEFAULTS.org_rpm, DEFAULTS.org_tokens_per_month),
    ]


@pytest.mark.parametrize("value", ["0", "1", str(2**31), str(2**53 - 1), "null", "60.0", "1e3"])
async def test_limits_in_range_are_taken(rest: Rest, value: str) -> None:
    """Zero is a limit, 64-bit numbers stay exact, and JSON may write 60 as 60.0."""
    answer = await rest.change(ORGANIZATION_LIMITS, f'{{"requests_per_minute": {value}}}'.encode())

    assert answer.status == 200
    assert answer.body["overrides"]["requests_per_minute"] == json.loads(value)


async def test_agent_is_changed_without_its_organization(rest: Rest) -> None:
    """An override of an agent is its own, and is told apart from what it inherits."""
    answer = await rest.change(AGENT_LIMITS, {"requests_per_minute": 7})

    assert answer.body["agent_requests_per_minute"] == 7
    assert answer.body["overrides"] == {"requests_per_minute": 7, "tokens_per_month": None}
    assert answer.body["updated_by"] == f"key:{rest.world.ours.admin.key_id} Ours admin"
    organization = await rest.read(ORGANIZATION_LIMITS)
    assert organization["agent_requests_per_minute"] == DEFAULTS.agent_rpm
    assert organization["updated_by"] is None


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON"])
async def test_plain_json_is_a_merge_patch_too(rest: Rest, content_type: str) -> None:
    """Clients that know one media type only can change limits."""
    answer = await rest.change(
        ORGANIZATION_LIMITS, {"requests_per_minute": 3}, headers={"Content-Type": content_type}
    )

    assert (answer.status, answer.body["org_requests_per_minute"]) == (200, 3)


async def test_if_match_lets_the_first_of_two_writers_win(rest: Rest) -> None:
    """Both read the same version; the second is refused, and nothing of it is written."""
    path = path_to(ORGANIZATION_LIMITS, rest.world.ours)
    read = await rest.call("GET", path)
    condition = {"If-Match": read.headers["etag"]}

    answers = await asyncio.gather(
        *(
            rest.call("PATCH", path, {"requests_per_minute": limit}, headers=condition)
            for limit in (11, 22)
        )
    )

    won, lost = sorted(answers, key=lambda answer: answer.status)
    assert (won.status, lost.status) == (200, 412)
    assert won.headers["etag"] == f'"{read.body["version"] + 1}"'
    assert (await rest.read(ORGANIZATION_LIMITS))["version"] == read.body["version"] + 1
    assert len((await rest.read(CHANGES))["changes"]) == 1


@pytest.mark.parametrize(
    ("if_match", "status"),
    [
        *((None, 200), ("*", 200), ('"5"', 200), ("5", 200), ('"4", "5"', 200)),
        *(('W/"5"', 412), ('"4"', 412), ('"6"', 412), ('"05"', 412), ('"x"', 412)),
        *(("", 412), ('"5', 412), ('"-5"', 412), (f'"{2**63}"', 412)),
    ],
)
async def test_if_match_compares_strongly(rest: Rest, if_match: str | None, status: int) -> None:
    """Only the version that is there matches, and what is no ETag of ours matches nothing."""
    assert (await rest.read(ORGANIZATION_LIMITS))["version"] == 5
    headers = {} if if_match is None else {"If-Match": if_match}

    answer = await rest.change(ORGANIZATION_LIMITS, {"requests_per_minute": 1}, headers=headers)

    assert answer.status == status
    assert (await rest.read(ORGANIZATION_LIMITS))["version"] == (6 if status == 200 else 5)


async def test_change_says_when_it_takes_effect(rest: Rest) -> None:
    """Gateways that could not be told follow with their poll, and the answer says so."""
    at_once = await rest.change(ORGANIZATION_LIMITS, {"requests_per_minute": 1})
    rest.world.channel.connected = False
    later = await rest.change(ORGANIZATION_LIMITS, {"requests_per_minute": 2})

    assert at_once.headers["ibex-takes-effect"] == "now"
    assert rest.world.channel.published == [rest.world.ours.id]
    assert (later.status, later.headers["ibex-takes-effect"]) == (200, "next-poll")
    assert later.body["org_requests_per_minute"] == 2
    assert {later.body[name] for name in LIVE} == {None}
    assert (await rest.read(ORGANIZATION_LIMITS))["org_requests_per_minute"] == 2


async def test_without_redis_limits_are_changed_and_not_shown(
    pool: Any, start_redis: StartRedis
) -> None:
    """What cannot be known is a 503, never a made-up zero; changing goes on."""
    server = start_redis()
    async with world(pool, server.url) as made, serving(made) as rest:
        server.stop()
        made.channel.connected = False

        read = await rest.call("GET", path_to(ORGANIZATION_LIMITS, made.ours))
        changed = await rest.change(ORGANIZATION_LIMITS, {"requests_per_minute": 2})

    assert (read.status, read.body["type"]) == (503, "urn:ibex:problem:unavailable")
    assert server.url not in str(read.body)
    assert (changed.status, changed.headers["ibex-takes-effect"]) == (200, "next-poll")


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("/v1/organizations/{organization_id}/rate-limits/usage", {"organization_id"}),
        ("/v1/agents/{agent_id}/rate-limits/usage", {"agent_id"}),
        ("/v1/rate-limits/usage", set()),
    ],
)
async def test_usage_is_sixty_minutes_oldest_first(rest: Rest, path: str, whose: set[str]) -> None:
    """Idle minutes are there as zeros, up to the minute that is running."""
    usage = await rest.read(path, role="platform")

    assert set(usage) == {"points", *whose}
    times = [datetime.fromisoformat(point["timestamp"]) for point in usage["points"]]
    assert times == [times[0] + timedelta(minutes=minute) for minute in range(60)]
    assert timedelta(0) <= datetime.now(UTC) - times[-1] < timedelta(minutes=2)
    nothing = {"agent": 0, "org": 0, "global": 0, "tokens": 0}
    for point in usage["points"]:
        assert point == {
            "timestamp": point["timestamp"],
            "requests": 0,
            "tokens": 0,
            "denied": nothing,
            "open": 0,
            "estimated": 0,
        }


async def test_changes_tell_who_when_what_and_through_what(rest: Rest) -> None:
    """The newest first, in pages that neither overlap nor leave anything out."""
    started = datetime.now(UTC)
    await rest.change(ORGANIZATION_LIMITS, {"requests_per_minute": 10, "tokens_per_month": 20})
    await rest.change(AGENT_LIMITS, {"requests_per_minute": 5}, role="platform")
    await rest.change(AGENT_LIMITS, {"requests_per_minute": None})

    pages: list[dict[str, Any]] = [await rest.read(f"{CHANGES}?first=3")]
    pages.append(await rest.read(f"{CHANGES}?first=3&after={pages[0]['next']}"))

    assert [len(page["changes"]) for page in pages] == [3, 1]
    assert pages[1]["next"] is None
    found = [change for page in pages for change in page["changes"]]
    ours, admin, root = rest.world.ours, rest.world.ours.admin, rest.world.platform
    by_admin, by_root = f"key:{admin.key_id} Ours admin", f"key:{root.key_id} root"
    for change in found:
        assert set(change) == {"id", "at", "by", "via", "agent_id", "field", "old", "new"}
        assert started <= datetime.fromisoformat(change["at"]) <= datetime.now(UTC)
        assert change["via"] == "rest"
    told = [tuple(change[name] for name in ("by", "agent_id", "old", "new")) for change in found]
    assert told[:2] == [(by_admin, ours.agent_id, 5, None), (by_root, ours.agent_id, None, 5)]
    assert {(change["field"], *row) for change, row in zip(found[2:], told[2:], strict=True)} == {
        ("requests_per_minute", by_admin, None, None, 10),
        ("tokens_per_month", by_admin, None, None, 20),
    }


async def test_live_numbers_are_those_of_the_limiter(rest: Rest, operated: World) -> None:
    """What REST shows is what the use case reads from the keys that decide."""
    shown = await rest.read(AGENT_LIMITS)
    read = await operated.management.rate_limits(
        operated.ours.admin, operated.ours.id, operated.ours.agent_id
    )

    assert {name: shown[name] for name in LIVE[:4]} == {
        name: getattr(read, name) for name in LIVE[:4]
    }

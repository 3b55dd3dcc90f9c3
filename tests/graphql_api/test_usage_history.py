"""Usage by hour and by day: whole spans, idle ones too, of up to thirteen months."""

from datetime import UTC, datetime, timedelta

import pytest
from graphql_server import graphql_server
from operators import World
from rest_server import Rest

from db.api_keys import Role
from db.ledger import UsageMinute, UsageSpan
from graphql_api.auth import Authenticator
from graphql_api.errors import BadInput
from graphql_api.history import KEPT, filled, period

NOW = datetime(2026, 12, 1, 2, 30, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def test_what_is_not_said_is_the_usual() -> None:
    """31 days that end with today, 48 hours that end with this one."""
    today, this_hour = NOW.replace(hour=0, minute=0), NOW.replace(minute=0)

    assert period(NOW) == ("day", today - 31 * DAY, today + DAY)
    assert period(NOW, "hour") == ("hour", this_hour - 48 * HOUR, this_hour + HOUR)


@pytest.mark.parametrize(
    ("since", "until", "begin", "end"),
    [
        ("2026-11-29", "2026-11-30", (29, 0), (30, 0)),
        ("2026-11-29T23:59:59Z", "2026-11-30T00:00:01Z", (29, 23), (30, 1)),
        ("2026-11-30T01:30:00+02:00", "2026-11-30t02:00:00z", (29, 23), (30, 2)),
        (datetime(2026, 11, 29, 1), datetime(2026, 11, 29, 1), (29, 1), (29, 1)),  # noqa: DTZ001
    ],
)
def test_a_period_is_widened_to_whole_spans(
    since: object, until: object, begin: tuple[int, int], end: tuple[int, int]
) -> None:
    """In UTC, whatever the offset; what has none is UTC."""
    _, found_begin, found_end = period(NOW, "hour", since, until)

    assert ((found_begin.day, found_begin.hour), (found_end.day, found_end.hour)) == (begin, end)


def test_a_period_is_cut_to_what_is_kept_and_has_come() -> None:
    """Not an error: what is not there is not told."""
    _, begin, end = period(NOW, "day", "0001-01-01", "9999-12-31T23:59:59Z")

    assert (begin, end) == (
        (NOW - KEPT).replace(hour=0, minute=0),
        NOW.replace(hour=0, minute=0) + DAY,
    )
    assert filled([], period(NOW, "day", "2026-11-30", "2026-11-29")) == ()


def test_idle_spans_are_zero() -> None:
    """Between, before and after what was counted."""
    begin = datetime(2026, 11, 28, tzinfo=UTC)
    counted = UsageSpan(begin + DAY, requests=3, tokens=9)

    spans = filled([counted], ("day", begin, begin + 3 * DAY))

    assert spans == (UsageSpan(begin), counted, UsageSpan(begin + 2 * DAY))


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("by", ("week", None, None)),
        ("from", (None, "soon", None)),
        ("to", (None, None, "2026-02-30")),
        ("to", ("hour", None, "0001-01-01T00:00:00+14:00")),
    ],
)
def test_what_is_no_time_is_named(field: str, asked: tuple[object, object, object]) -> None:
    """With what would be one."""
    with pytest.raises(BadInput) as refused:
        period(NOW, *asked)

    assert refused.value.field == field


async def written(world: World) -> datetime:
    """An hour of ours in the ledger, of its agent and as a whole; returns its beginning."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 3 * HOUR
    rows = [
        UsageMinute(world.ours.id, subject, hour + timedelta(minutes=at), 2, 1, 1, 10, 5)
        for subject in (world.ours.agent_id, world.ours.id)
        for at in range(60)
    ]
    await world.repository.ledger.write_minutes(rows)
    return hour


async def test_rest_tells_hours_and_days(rest: Rest) -> None:
    """Of an organization and of an agent, with the name of whose they are."""
    hour = await written(rest.world)
    sums = {"requests": 120, "denied": 60, "opened": 60, "tokens": 600, "estimated": 300}

    for path, whose in (
        ("/v1/organizations/{organization_id}/usage", "organization_id"),
        ("/v1/agents/{agent_id}/usage", "agent_id"),
    ):
        hours = await rest.read(f"{path}?by=hour", role="read_only")
        days = await rest.read(path, role="read_only")

        assert set(hours) == {"by", "spans", whose}
        assert (hours["by"], len(hours["spans"])) == ("hour", 49)
        (found,) = [span for span in hours["spans"] if span["requests"]]
        assert found == {"start": f"{hour:%Y-%m-%dT%H:%M:%SZ}", **sums}
        assert (days["by"], len(days["spans"])) == ("day", 32)
        assert sum(span["tokens"] for span in days["spans"]) == 600


async def test_graphql_tells_the_same(operated: World) -> None:
    """By the names of the schema."""
    hour = await written(operated)

    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        answer = await server.caller(operated.ours.secrets[Role.READ_ONLY]).ask(
            "query($org: ID!, $from: DateTime) { usageHistory(organizationId: $org, by: HOUR,"
            " from: $from) { start requests denied opened tokens estimated } }",
            {"org": operated.ours.id, "from": hour.isoformat()},
        )

    found = answer.data
    assert found["usageHistory"][0] == {
        "start": hour.isoformat(), "requests": 120, "denied": 60, "opened": 60, "tokens": 600,
        "estimated": 300,
    }  # fmt: skip
    assert len(found["usageHistory"]) == 4

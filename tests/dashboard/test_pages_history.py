"""The history of an organization and of an agent: days or hours, as charts and as a table."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from html_reader import Page
from pages_server import AGENT_HISTORY, HISTORY, Site

from dashboard.history_charts import requests_figure, tokens_figure
from db.ledger import UsageMinute, UsageSpan
from graphql_api.model import UsageHistory

HTML_BYTES = 100_000


async def with_usage(served: Site) -> None:
    """An hour of each of the last 31 days, of our agent and of the whole."""
    ours = served.world.ours
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    rows = [
        UsageMinute(ours.id, subject, now - timedelta(days=day, minutes=at), 7, 2, 1, 1000, 50)
        for subject in (ours.id, ours.agent_id)
        for day in range(31)
        for at in range(60)
    ]
    await served.world.repository.ledger.write_minutes(rows)


def rows_of(page: Page) -> list[str]:
    return [row.text for row in page.all("tr")[1:]]


@pytest.mark.parametrize("pattern", [HISTORY, AGENT_HISTORY])
async def test_days_and_hours_are_told(served: Site, pattern: str) -> None:
    """The newest first, the running one marked; charts and table say the same."""
    await with_usage(served)
    for query, count in (("", 32), ("?by=day", 32), ("?by=hour", 49)):
        html = await served.shown(f"{pattern}{query}")
        page = Page(html)
        rows = rows_of(page)

        assert len(html.encode()) < HTML_BYTES
        assert len(rows) == count
        assert ["(running)" in row for row in rows] == [True] + [False] * (count - 1)
        requests, tokens = (
            json.loads(script.text) for script in page.all("script", type="application/json")
        )
        assert len(requests["data"]) == 3
        assert sum(requests["data"][0]["y"]) % 7 == 0 < sum(requests["data"][0]["y"])
        assert sum(tokens["data"][1]["y"]) * 19 == sum(tokens["data"][0]["y"])
        (now,) = page.all("a", **{"aria-current": "true"})
        assert now.text == ("Hours" if "hour" in query else "Days")


async def test_nothing_yet_says_so(served: Site) -> None:
    """Every day is there, as a zero."""
    page = Page(await served.shown(HISTORY))

    assert len(rows_of(page)) == 32
    for script in page.all("script", type="application/json"):
        assert "Nothing in this time" in script.text


def figure_of(spans: int, **counts: int) -> Any:
    begin = datetime(2026, 11, 30, tzinfo=UTC)
    told = UsageHistory(
        "hour", tuple(UsageSpan(begin + timedelta(hours=at), **counts) for at in range(spans))
    )
    return requests_figure(told, name="A"), tokens_figure(told, name="A")


def test_bars_are_as_long_as_their_span() -> None:
    """From its beginning; the whole ends where the running one ends."""
    requests, _ = figure_of(3, requests=5)

    (bar,) = requests["data"]
    assert bar["x"] == ["2026-11-30 00:00:00", "2026-11-30 01:00:00", "2026-11-30 02:00:00"]
    assert (bar["offset"], bar["width"]) == (0, 3_060_000)
    assert requests["layout"]["xaxis"]["range"] == ["2026-11-30 00:00:00", "2026-11-30 03:00:00"]
    assert requests["layout"]["shapes"][0]["x0"] == "2026-11-30 02:00:00"


def test_what_there_was_none_of_is_no_trace() -> None:
    """But the first of a chart, which is there always."""
    requests, tokens = figure_of(2, denied=3, tokens=9, estimated=20)

    assert [trace["name"] for trace in requests["data"]] == ["admitted", "denied"]
    assert [trace["y"] for trace in tokens["data"]] == [[0, 0], [9, 9]]


async def test_an_agent_of_others_has_no_history(served: Site) -> None:
    """As if it were not there."""
    answer = await served.get(AGENT_HISTORY, whose="theirs")

    assert answer.status_code == httpx.codes.NOT_FOUND

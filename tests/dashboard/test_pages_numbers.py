"""The numbers on pages are those of the use cases, which are those of the limiter."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random

import asyncpg
import pytest
from html_reader import Page
from pages_server import AGENT, MOVING, ORGANIZATION, OVERVIEW, Site
from painted import paint
from session_server import Gate

from dashboard.formatting import grouped
from dashboard.projection import TOO_EARLY, month_of
from db.api_keys import Role
from db.limits import OverrideChange
from graphql_api.model import UsagePoint
from lua import keys
from lua.decision import Subject
from lua.limiter import LuaLimiter

LAST_SECONDS = 55


async def traffic(served: Site) -> None:
    """An hour of ours: of an agent, the organization and the platform, each with its own.

    Some seconds of the running minute are left, so that none begins between two looks.
    """
    await asyncio.sleep(_until_the_next_minute())
    ours = served.world.ours
    rings = (
        keys.agent_ring(ours.id, ours.agent_id),
        keys.org_ring(ours.id),
        keys.GLOBAL_RING,
    )
    for factor, ring in enumerate(rings, 1):
        await paint(
            served.redis,
            ring,
            requests=lambda age, by=factor: age * by,
            tokens=lambda age, by=factor: age * 1000 * by,
            denied={
                "agent": lambda age, by=factor: by * (age == 3),
                "org": lambda age, by=factor: 20 * by * (age == 4),
                "global": lambda age, by=factor: 300 * by * (age == 5),
                "tokens": lambda age, by=factor: 4000 * by * (age == 6),
            },
            opened=lambda age, by=factor: 50 * by * (age == 7),
            estimated=lambda age, by=factor: 600 * by * (age == 8),
            now=11 * factor,
        )
    month = datetime.now(UTC).strftime("%Y-%m")
    figures = {month: 250_000, f"{month}:held": 1_500}
    await served.redis.hset(keys.month_tokens(ours.id), mapping=figures)


def _until_the_next_minute() -> float:
    second = time.time() % 60
    return 60.1 - second if second > LAST_SECONDS else 0


def card(page: Page, title: str) -> str:
    """The text of the card of that title."""
    (found,) = [each.text for each in page.all("section", "card") if each.text.startswith(title)]
    return found.removeprefix(title).strip()


async def usage_of(served: Site, pattern: str) -> tuple[UsagePoint, ...]:
    world, ours = served.world, served.world.ours
    whose = {
        OVERVIEW: {},
        ORGANIZATION: {"organization_id": ours.id},
        AGENT: {"agent_id": ours.agent_id},
    }[pattern]
    return await world.management.usage(world.platform, **whose)


@pytest.mark.parametrize("pattern", MOVING)
async def test_cards_and_tables_say_what_the_use_cases_say(served: Site, pattern: str) -> None:
    """Requests now, the last hour, denials by level, and each minute of the chart's table."""
    await traffic(served)
    factor = {OVERVIEW: 3, ORGANIZATION: 2, AGENT: 1}[pattern]
    page = Page(await served.shown(pattern, Role.PLATFORM))

    points = await usage_of(served, pattern)
    limit = {OVERVIEW: 6000, ORGANIZATION: 600, AGENT: 60}[pattern]
    denied = [factor * each for each in (1, 20, 300, 4000)]
    window = card(page, "Requests, last 60 s")
    assert window.startswith(f"{11 * factor} of {grouped(limit)}")
    in_words = card(page, "Denied, last hour")
    assert in_words == (
        f"{grouped(sum(denied))}"
        f" by the agent's limit {grouped(denied[0])} by the organization's {grouped(denied[1])}"
        f" by the platform's {grouped(denied[2])} by the token ceiling {grouped(denied[3])}"
        f" {50 * factor} forwarded without a decision: the limiter was open."
    )
    rows = [row.text.split(" ") for row in page.all("tr") if re.match(r"\d\d:\d\d ", row.text)]
    told = [
        [
            f"{each.timestamp:%H:%M}",
            *(
                grouped(count)
                for count in (
                    each.requests,
                    each.denied.agent,
                    each.denied.org,
                    each.denied.platform,
                    each.denied.tokens,
                    each.open,
                )
            ),
        ]
        for each in reversed(points)
    ]
    assert rows[:60] == told
    if pattern != OVERVIEW:
        assert rows[60:] == [
            [f"{each.timestamp:%H:%M}", grouped(each.tokens), grouped(each.estimated)]
            for each in reversed(points)
        ]
    tokens, estimated = (
        grouped(sum(getattr(each, kind) for each in points)) for kind in ("tokens", "estimated")
    )
    assert estimated == grouped(600 * factor)
    where = "Tokens this month" if pattern == ORGANIZATION else "Last hour"
    words = "in the last hour {}" if pattern == ORGANIZATION else "{} tokens used"
    assert f"{words.format(tokens)}, {estimated} of them estimated" in card(page, where)


async def test_the_month_is_told_with_what_is_held(served: Site) -> None:
    """Of the ceiling."""
    await traffic(served)

    month = card(Page(await served.shown(ORGANIZATION)), "Tokens this month")

    assert month.startswith("250\u202f000 of 1\u202f000\u202f000 and 1\u202f500 held")
    assert month.endswith("No projection yet: one takes six hours of this month's use.")


async def test_the_month_is_projected(served: Site, pool: asyncpg.Pool) -> None:
    """For an organization of long ago, but in the first hours of a month."""
    await traffic(served)
    await pool.execute("UPDATE ibex_core.organizations SET created_at = '2020-01-01T00:00Z'")
    start, end = month_of(datetime.now(UTC))

    month = card(Page(await served.shown(ORGANIZATION)), "Tokens this month")

    seen = datetime.now(UTC) - start
    if seen < TOO_EARLY:
        assert "No projection yet" in month
        return
    told = re.search(r"At this month's average pace ([\d\u202f]+) by its end", month)
    assert told
    expected = 250_000 * ((end - start) / seen)
    assert int(told[1].replace("\u202f", "")) == pytest.approx(expected, rel=0.01)


async def test_a_request_under_way_is_in_flight(served: Site) -> None:
    """As the limiter has admitted it."""
    async with limiter(served) as real:
        ours = served.world.ours
        subject = Subject.of((ours.id, ours.agent_id), (60, 600, None), 1_000_000)
        decision = await real.admit(subject, 100, 0)
        assert decision.admitted
        assert not decision.is_open

        page = Page(await served.shown(ORGANIZATION))

    assert card(page, "In flight").startswith("1 ")
    assert card(page, "Requests, last 60 s").startswith("1 of 600")
    assert "100 held" in card(page, "Tokens this month")


@asynccontextmanager
async def limiter(served: Site) -> AsyncIterator[LuaLimiter]:
    real = LuaLimiter(served.redis, Gate(), deadline_s=5, lease_s=60)
    await real.load()
    yield real
    await real.close(1)


@pytest.mark.parametrize("pattern", MOVING)
async def test_the_script_gets_the_page_again(served: Site, pattern: str) -> None:
    """The fragments are what the page has in the same places, the figures what it embeds."""
    await traffic(served)
    shown = await served.shown(pattern, Role.PLATFORM)

    news = (await served.get(f"{pattern}/live", Role.PLATFORM)).json()

    page = Page(shown)
    places = {
        each.attributes["data-fragment"]: each.text
        for each in page.elements
        if "data-fragment" in each.attributes
    }
    moving = {"status"}  # says when it was read
    assert places.keys() == news["fragments"].keys()
    for name in places.keys() - moving:
        assert Page(news["fragments"][name]).text == places[name], name
    embedded = [each.text for each in page.all("script", type="application/json")]
    names = [each.attributes["data-figure"] for each in page.all("figure")]
    assert news["figures"].keys() == set(names)
    for name, figure in zip(names, embedded, strict=True):
        assert json.loads(figure) == news["figures"][name]
    assert not news["stale"]
    as_of = datetime.fromisoformat(news["as_of"])
    assert abs((datetime.now(UTC) - as_of).total_seconds()) < 60
    assert page.one("main").attributes["data-live"] == served.path(pattern) + "/live"


async def test_lists_say_what_their_rows_pages_say(served: Site) -> None:
    """The overview's row of ours, and its page's row of the agent."""
    await traffic(served)

    overview = Page(await served.shown(OVERVIEW, Role.PLATFORM))
    organization = Page(await served.shown(ORGANIZATION, Role.PLATFORM))

    (ours,) = [row.text for row in overview.all("tr") if row.text.startswith("Ours")]
    assert ours == (
        "Ours 22 of 600 250\u202f000 of 1\u202f000\u202f000"
        " 2 agent 40 organization 600 platform 8\u202f000 tokens 0"
    )
    (agent,) = [row.text for row in organization.all("tr") if row.text.startswith("Ours's agent")]
    hour = sum(range(1, 60)) + 11
    begins = [f"Ours's agent 11 of 60 {grouped(hour - gone)}" for gone in (0, 59)]
    assert agent.startswith(tuple(begins))  # the oldest minute may have gone by


async def test_a_limit_below_the_use_is_told(served: Site) -> None:
    """By how much, and what it means; 0 admits nothing; no limit has no bar."""
    await traffic(served)
    ours = served.world.ours

    async def limited(requests: int | None, tokens: int | None) -> Page:
        await served.world.management.update_rate_limits(
            ours.admin, ours.id, None, OverrideChange(requests, tokens),
            expected_version=None, via="rest",
        )  # fmt: skip
        return Page(await served.shown(ORGANIZATION))

    page = await limited(20, 200_000)
    assert "2 over: the limit was lowered" in card(page, "Requests, last 60 s")
    assert "50\u202f000 over: nothing is admitted" in card(page, "Tokens this month")
    assert len(page.all("svg", "full")) == 2
    page = await limited(22, 250_000)
    assert "At the limit" in card(page, "Requests, last 60 s")
    assert "At the ceiling" in card(page, "Tokens this month")
    page = await limited(0, 0)
    assert "A limit of 0: nothing is admitted." in card(page, "Requests, last 60 s")
    assert "A limit of 0: nothing is admitted." in card(page, "Tokens this month")


async def test_a_page_of_fifty_busy_agents_is_light(served: Site, pool: asyncpg.Pool) -> None:
    """Under 100 kB of HTML, as it is before it is compressed, whatever the sparklines show."""
    ours = served.world.ours
    agents = await pool.fetch(
        "INSERT INTO ibex_core.agents (id, org_id, name)"
        " SELECT gen_random_uuid(), $1, 'worker ' || n FROM generate_series(1, 49) n"
        " RETURNING id::text",
        ours.id,
    )
    draw = Random(1)
    for agent_id in (ours.agent_id, *(agent["id"] for agent in agents)):
        await paint(
            served.redis,
            keys.agent_ring(ours.id, agent_id),
            requests=lambda _: draw.randint(0, 10_000),
            denied=dict.fromkeys(
                ("agent", "org", "global", "tokens"), lambda _: draw.randint(1, 999)
            ),
            opened=lambda age: 10 <= age < 15,
            now=draw.randint(0, 60),
        )
    await traffic(served)

    answer = await served.get(ORGANIZATION, headers={"Accept-Encoding": "identity"})

    assert len(Page(answer.text).all("svg", "sparkline")) == 50
    assert len(answer.content) < 100_000

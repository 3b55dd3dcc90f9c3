"""What pages say when there is nothing to say, or nobody to ask."""

import re
import time
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest
from html_reader import Page
from operators import world
from pages_server import AGENT, AGENT_LIMITS, CHANGES, MOVING, ORGANIZATION, OVERVIEW, Site, site
from painted import paint
from servers import PostgresServer, RedisServer, StartPostgres, StartRedis
from session_server import COOKIE

from dashboard.session_cookie import SECURE_NAME
from db.api_keys import Role
from db.limits import Limits, OverrideChange
from db.migrate import migrate
from db.repository import connect
from lua import keys


@pytest.fixture
async def frail_redis(start_redis: StartRedis) -> RedisServer:
    """A Redis to be stopped."""
    return start_redis()


@pytest.fixture
async def frail(pool: asyncpg.Pool, frail_redis: RedisServer) -> AsyncIterator[Site]:
    """The pages on that Redis, with an hour of traffic of ours."""
    async with world(pool, frail_redis.url) as made, site(made, frail_redis.url) as opened:
        ours = made.ours
        for ring in (
            keys.agent_ring(ours.id, ours.agent_id), keys.org_ring(ours.id), keys.GLOBAL_RING
        ):  # fmt: skip
            await paint(opened.redis, ring, requests=lambda _: 7, now=5)
        yield opened


def row_of(page: Page, name: str) -> str:
    """The text of the table's row of that name."""
    (found,) = [row.text for row in page.all("tr") if row.text.startswith(name)]
    return found


async def test_without_redis_the_last_known_numbers_are_told(
    frail: Site, frail_redis: RedisServer
) -> None:
    """With a banner and their time; limits are those of now, and can be changed."""
    before = {pattern: Page(await frail.shown(pattern, Role.PLATFORM)) for pattern in MOVING}
    frail_redis.stop()

    for pattern in MOVING:
        page = Page(await frail.shown(pattern, Role.PLATFORM))
        banner = page.one("p", "banner")
        assert "Limiter open." in banner.text
        assert "The numbers are the last known, of " in banner.text
        told = before[pattern].one("p", "as-of")
        assert told.text.removeprefix("Numbers as of ") in banner.text
        assert page.all("section", "card")[0].text == before[pattern].all("section", "card")[0].text
        news = (await frail.get(f"{pattern}/live", Role.PLATFORM)).json()
        assert news["stale"]
        assert "Limiter open." in news["fragments"]["status"]

    fields = {"version": await version_on(frail, AGENT), "requests_per_minute": "3"}
    answer = await frail.send(AGENT_LIMITS, fields, Role.PLATFORM)
    assert answer.status_code == httpx.codes.SEE_OTHER
    page = Page(await frail.shown(AGENT, Role.PLATFORM))
    assert page.all("section", "card")[0].text.startswith("Requests, last 60 s 5 of 3")
    page = Page(await frail.shown(ORGANIZATION, Role.PLATFORM))
    assert "5 of 3" in row_of(page, "Ours's agent")


async def version_on(served: Site, pattern: str) -> str:
    page = Page(await served.shown(pattern, Role.PLATFORM))
    (found,) = [each for each in page.all("input") if each.attributes.get("name") == "version"]
    return found.attributes["value"]


async def test_without_redis_from_the_start_numbers_are_unknown(
    frail: Site, frail_redis: RedisServer
) -> None:
    """Names and limits are told all the same, and nothing is said to be zero."""
    await frail.browser(Role.PLATFORM)
    await frail.shown(CHANGES, Role.PLATFORM)
    frail_redis.stop()

    for pattern in MOVING:
        page = Page(await frail.shown(pattern, Role.PLATFORM))
        assert "The live numbers are not known." in page.one("p", "banner").text
        card = page.all("section", "card")[0].text
        assert card.startswith("Requests, last 60 s unknown")
        assert "The numbers of the last 60 minutes are not known." in page.text
        assert not page.all("svg", "bar")
    assert row_of(Page(await frail.shown(ORGANIZATION, Role.PLATFORM)), "Ours's agent") == (
        "Ours's agent unknown of 60 unknown unknown unknown"
    )
    assert row_of(Page(await frail.shown(OVERVIEW, Role.PLATFORM)), "Ours") == (
        "Ours unknown of 600 unknown of 1\u202f000\u202f000 unknown unknown"
    )


async def test_when_redis_is_back_the_numbers_are(frail: Site, frail_redis: RedisServer) -> None:
    """The banner goes with the outage."""
    await frail.shown(ORGANIZATION)
    frail_redis.stop()
    assert Page(await frail.shown(ORGANIZATION)).all("p", "banner")
    frail_redis.start()

    page = Page(await frail.shown(ORGANIZATION))

    assert not page.all("p", "banner")
    assert page.one("p", "as-of").text.startswith("Numbers as of ")


async def test_last_known_numbers_are_told_to_who_has_seen_them(
    frail: Site, frail_redis: RedisServer
) -> None:
    """What the platform's operator has seen is not recalled for another key."""
    await frail.shown(ORGANIZATION, Role.PLATFORM)
    await frail.shown(CHANGES, Role.ADMIN)
    frail_redis.stop()

    page = Page(await frail.shown(ORGANIZATION, Role.ADMIN))

    assert "The live numbers are not known." in page.one("p", "banner").text


@pytest.fixture
async def on_frail_postgres(
    start_postgres: StartPostgres, redis_url: str
) -> AsyncIterator[tuple[Site, PostgresServer]]:
    """The pages on a Postgres to be stopped."""
    server = start_postgres()
    with server.database() as url:
        await migrate(url)
        pool = await connect(url, min_size=1, max_size=4)
        async with world(pool, redis_url) as made, site(made, redis_url) as opened:
            yield opened, server
        server.start()
        await pool.close()


async def test_without_postgres_the_last_known_page_is_shown(
    on_frail_postgres: tuple[Site, PostgresServer],
) -> None:
    """With a banner; a page that was not seen before is a 503 that tries again by itself."""
    served, server = on_frail_postgres
    await served.shown(ORGANIZATION)
    server.stop()

    page = Page(await served.shown(ORGANIZATION))
    unseen = await served.get(AGENT)
    script = await served.get(f"{AGENT}/live")
    sent = await served.send(AGENT_LIMITS, {"version": "1", "requests_per_minute": "1"})

    assert "Database down." in page.one("p", "banner").text
    assert page.heading == "Ours"
    assert unseen.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert unseen.headers["retry-after"] == "5"
    refresh = [each.attributes for each in Page(unseen.text).all("meta")]
    assert {"http-equiv": "refresh", "content": "5"} in refresh
    assert Page(unseen.text).heading == "The database does not answer"
    assert script.status_code == sent.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert "database" in script.json()["error"].lower() or "changed" in script.json()["error"]


async def test_no_traffic_yet_says_what_to_send(served: Site) -> None:
    """With this server's own address, and zeros rather than an error."""
    for pattern in (ORGANIZATION, AGENT):
        page = Page(await served.shown(pattern))

        assert f"curl -s {served.url}/openai/v1/chat/completions" in page.one("pre").text
        assert page.all("section", "card")[0].text.startswith("Requests, last 60 s 0 of")
        assert "0 requests admitted" in page.text


async def test_the_line_to_send_takes_no_command_from_the_host(served: Site) -> None:
    """A made-up Host header is not put where a shell would read it."""
    session = (await served.browser()).cookies[COOKIE]
    for host in ("x;reboot", "$(reboot)", "a b", "'"):
        headers = {"Host": host, "Cookie": f"{SECURE_NAME}={session}"}
        page = Page(await served.shown(ORGANIZATION, headers=headers))

        assert "curl -s http://HOST/openai" in page.one("pre").text


async def test_one_minute_of_traffic_is_an_hour(served: Site) -> None:
    """With 59 idle minutes, which are zero; nothing is asked to be sent any more."""
    await paint(served.redis, keys.org_ring(served.world.ours.id), now=3)

    page = Page(await served.shown(ORGANIZATION))

    assert not page.all("pre")
    assert "3 requests admitted" in page.text


async def test_no_limits_are_no_bars(pool: asyncpg.Pool, redis_url: str) -> None:
    """Numbers without a limit say that there is none."""
    async with world(pool, redis_url, defaults=Limits()) as made, site(made, redis_url) as served:
        await paint(served.redis, keys.org_ring(made.ours.id), now=3)

        page = Page(await served.shown(ORGANIZATION))

    assert page.all("section", "card")[0].text == "Requests, last 60 s 3 no limit"
    assert not page.all("svg", "bar")
    assert "In force: no limit, the platform's default." in page.text


async def test_an_organization_without_agents_says_how_to_make_one(served: Site) -> None:
    """And an agent without keys how to issue one."""
    world = served.world
    empty = await world.management.create_organization(world.platform, "Empty")
    agent = (await world.management.create_agent(world.platform, world.ours.id, "keyless")).value

    page = Page(await served.shown(f"/dashboard/organizations/{empty.id}", Role.PLATFORM))
    keyless = Page(await served.shown(f"/dashboard/agents/{agent.id}"))

    assert f"ibex agent create --org {empty.id} NAME" in page.text
    assert f"ibex key issue --agent {agent.id}" in keyless.text


async def test_keys_are_told_by_prefix(served: Site) -> None:
    """With name, age and state; no secret is on any page."""
    world, ours = served.world, served.world.ours
    issued = await world.management.issue_key(
        ours.admin, role=Role.AGENT, organization_id=None, agent_id=ours.agent_id, name="second"
    )
    await world.management.revoke_key(ours.admin, issued.value.key.id)
    await world.management.update_rate_limits(
        ours.admin, ours.id, None, OverrideChange(5), expected_version=None, via="rest"
    )

    page = Page(await served.shown(AGENT))

    second = row_of(page, f"{issued.value.key.prefix}… second")
    assert " revoked " in second
    assert [row.text for row in page.all("tr") if row.text.endswith(" live")]
    secrets = [*ours.secrets.values(), issued.value.secret]
    for pattern in (ORGANIZATION, AGENT, CHANGES):
        html = await served.shown(pattern)
        assert not [secret for secret in secrets if secret in html]


async def test_ten_thousand_agents_are_shown_a_page_at_a_time(
    served: Site, pool: asyncpg.Pool
) -> None:
    """The one under the highest pressure first, wherever it is; links lead on and back."""
    ours = served.world.ours
    await pool.execute(
        "INSERT INTO ibex_core.agents (id, org_id, name)"
        " SELECT gen_random_uuid(), $1, 'worker ' || n FROM generate_series(1, 9999) n",
        ours.id,
    )
    busy = str(await pool.fetchval("SELECT id FROM ibex_core.agents WHERE name = 'worker 7777'"))
    await paint(served.redis, keys.agent_ring(ours.id, busy), now=50)
    await served.browser()
    began = time.perf_counter()

    first = Page(await served.shown(ORGANIZATION))

    assert time.perf_counter() - began < 3  # 0.3 s where nothing else runs
    rows = [row.text for row in first.all("tr") if "of 60" in row.text]
    assert len(rows) == 50
    assert rows[0].startswith("worker 7777 50 of 60")
    assert "Page 1 of 200: 10\u202f000 agents" in first.text
    assert not first.all("a", rel="prev")
    assert first.one("a", rel="next").attributes["href"] == f"{served.path(ORGANIZATION)}?page=2"
    second = Page(await served.shown(f"{ORGANIZATION}?page=2"))
    assert second.one("a", rel="prev").attributes["href"] == served.path(ORGANIZATION)
    last = Page(await served.shown(f"{ORGANIZATION}?page=999"))
    assert "Page 200 of 200" in last.text
    assert not last.all("a", rel="next")


async def test_the_audit_is_paged(served: Site) -> None:
    """The newest first; each change once."""
    world, ours = served.world, served.world.ours
    for number in range(60):
        await world.management.update_rate_limits(
            ours.admin, ours.id, None, OverrideChange(number), expected_version=None, via="rest"
        )

    first = Page(await served.shown(CHANGES))
    older = first.one("a", rel="next").attributes["href"]
    second = Page(await served.shown(older))

    texts = [row.text for page in (first, second) for row in page.all("tr")[1:]]
    numbers = [re.search(r"→ (\d+) ", text)[1] for text in texts]  # type: ignore[index]
    assert numbers == [str(number) for number in reversed(range(60))]
    assert second.all("a", href=served.path(CHANGES))
    assert not second.all("a", rel="next")

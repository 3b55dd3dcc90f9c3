"""Changing limits from a page."""

import asyncpg
import httpx
import pytest
from html_reader import Element, Page
from pages_server import AGENT, AGENT_LIMITS, CHANGES, ORGANIZATION, ORGANIZATION_LIMITS, Site

from db.api_keys import Role
from db.limits import MAX_LIMIT
from graphql_api.model import RateLimits

NAMES = ("requests_per_minute", "tokens_per_month")
TAKEN = {
    "0": 0,
    "007": 7,
    " 1 000 ": 1000,
    "1\u202f000\u00a0000": 1_000_000,
    str(MAX_LIMIT): MAX_LIMIT,
    "": None,
    "   ": None,
    "inherit": None,
    "Inherited": None,
}
REFUSED = (
    "-1", "1.5", "ten", "1e3", "1,000", "\u0663", "9" * 20, "9" * 5000, str(MAX_LIMIT + 1), "<b>",
)  # fmt: skip
WHY = "must be a whole number from 0 to 9007199254740991; null inherits"
FORMS = (ORGANIZATION_LIMITS, AGENT_LIMITS)


def typed(page: Page) -> dict[str, str]:
    """What a browser would send back as it is."""
    inputs = (each.attributes for each in page.all("input") if "name" in each.attributes)
    return {each["name"]: each["value"] for each in inputs}


def is_of_agent(pattern: str) -> bool:
    return pattern == AGENT_LIMITS


async def form_on(served: Site, pattern: str, role: Role = Role.ADMIN) -> dict[str, str]:
    return typed(Page(await served.shown(pattern.removesuffix("/limits"), role)))


async def set_now(served: Site, pattern: str) -> RateLimits:
    ours = served.world.ours
    agent_id = ours.agent_id if is_of_agent(pattern) else None
    return await served.world.management.rate_limits(ours.admin, ours.id, agent_id)


def problem_at(page: Page, name: str) -> Element:
    """The message at a field, by what describes the field."""
    field = page.one("input", id=name)
    assert field.attributes["aria-invalid"] == "true"
    described = field.attributes["aria-describedby"].split()
    assert f"{name}-error" in described
    return page.one("p", id=f"{name}-error")


@pytest.mark.parametrize("role", [Role.ADMIN, Role.PLATFORM])
@pytest.mark.parametrize("pattern", FORMS)
async def test_a_limit_is_changed(served: Site, pattern: str, role: Role) -> None:
    """The page says so, and from when; the audit says who did it through the dashboard."""
    fields = await form_on(served, pattern, role) | {"requests_per_minute": "7"}
    answer = await served.send(pattern, fields, role)

    page_url = served.path(pattern).removesuffix("/limits")
    assert answer.status_code == httpx.codes.SEE_OTHER
    assert answer.headers["location"] == f"{page_url}?changed=now#limits"
    shown = Page((await served.get(f"{page_url}?changed=now", role)).text)
    now = await set_now(served, pattern)
    assert now.overrides.requests_per_minute == 7
    assert served.world.channel.published == [served.world.ours.id]
    assert shown.one("p", "notice").text.startswith("Saved. In force now")
    assert shown.one("input", id="requests_per_minute").attributes["value"] == "7"
    assert "In force: 7, set here." in shown.text
    (audit, *_) = Page(await served.shown(CHANGES)).all("tr")[1:]
    name = "ours admin" if role is Role.ADMIN else "root"
    assert name in audit.text.lower()
    assert audit.text.endswith(" dashboard")
    assert "requests per minute: inherited → 7" in audit.text


@pytest.mark.parametrize("name", NAMES)
async def test_a_field_takes_a_number_or_nothing(served: Site, name: str) -> None:
    """Grouped as pages write it, too; nothing inherits; 0 is a number. The other field stays."""
    other = next(each for each in NAMES if each != name)
    for text, is_set in TAKEN.items():
        start = {name: "8", other: "9"}
        await served.send(ORGANIZATION_LIMITS, await form_on(served, ORGANIZATION_LIMITS) | start)
        fields = await form_on(served, ORGANIZATION_LIMITS) | {name: text}

        answer = await served.send(ORGANIZATION_LIMITS, fields)

        assert answer.status_code == httpx.codes.SEE_OTHER, text
        overrides = (await set_now(served, ORGANIZATION_LIMITS)).overrides
        assert getattr(overrides, name) == is_set, text
        assert getattr(overrides, other) == 9, text


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_no_limit_is_refused_at_the_field(served: Site, name: str) -> None:
    """In the API's words; what was typed stays, the rest too, and nothing is changed."""
    other = next(each for each in NAMES if each != name)
    for text in REFUSED:
        fields = await form_on(served, ORGANIZATION_LIMITS) | {name: text, other: "12"}

        answer = await served.send(ORGANIZATION_LIMITS, fields)

        page = Page(answer.text)
        assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, text
        assert problem_at(page, name).text == WHY, text
        assert typed(page) == fields, text
        assert "autofocus" in page.one("input", id=name).attributes, text
        assert "aria-invalid" not in page.one("input", id=other).attributes, text
        assert page.heading == "Ours", text
    overrides = (await set_now(served, ORGANIZATION_LIMITS)).overrides
    assert (overrides.requests_per_minute, overrides.tokens_per_month) == (None, None)
    assert served.world.channel.published == []


@pytest.mark.parametrize("pattern", FORMS)
async def test_the_second_of_two_writers_is_told(served: Site, pattern: str) -> None:
    """Nothing is overwritten unseen: the page shows what is set now, and keeps what was typed."""
    old = await form_on(served, pattern)
    await served.send(pattern, old | {"requests_per_minute": "50"})
    await served.send(pattern, await form_on(served, pattern) | {"requests_per_minute": "60"})

    answer = await served.send(pattern, old | {"requests_per_minute": "70"})

    page = Page(answer.text)
    now = await set_now(served, pattern)
    assert answer.status_code == httpx.codes.CONFLICT
    assert now.overrides.requests_per_minute == 60
    why = page.one("p", "problem")
    assert why.text.startswith("Not saved: the organization is at version")
    assert "autofocus" in why.attributes  # it is seen, wherever on the page the form is
    assert "In force: 60, set here." in page.text
    again = typed(page)
    assert again["requests_per_minute"] == "70"
    assert again["version"] == str(now.version)
    assert (await served.send(pattern, again)).status_code == httpx.codes.SEE_OTHER
    assert (await set_now(served, pattern)).overrides.requests_per_minute == 70


async def test_a_form_without_its_version_is_refused(served: Site) -> None:
    """As a whole, not at a field that was typed."""
    for version in ("", "x", "-1", "1.0", "0", "9" * 19):
        fields = await form_on(served, ORGANIZATION_LIMITS) | {"version": version}

        answer = await served.send(ORGANIZATION_LIMITS, fields)

        assert answer.status_code in {httpx.codes.UNPROCESSABLE_ENTITY, httpx.codes.CONFLICT}
        assert "version" in Page(answer.text).one("p", "problem").text, version
    assert served.world.channel.published == []


async def test_a_form_that_changes_nothing_says_so(served: Site) -> None:
    """And is no change: no audit, no message."""
    answer = await served.send(ORGANIZATION_LIMITS, await form_on(served, ORGANIZATION_LIMITS))

    assert answer.headers["location"].endswith("?changed=nothing#limits")
    shown = Page((await served.get(answer.headers["location"])).text)
    assert shown.one("p", "notice").text == "Nothing was changed: these limits are set already."
    assert "No limit of this organization was changed yet." in await served.shown(CHANGES)


async def test_it_says_when_redis_could_not_be_told(served: Site) -> None:
    """The change stands, and gateways find it with their next poll."""
    served.world.channel.connected = False
    fields = await form_on(served, AGENT_LIMITS) | {"requests_per_minute": "3"}

    answer = await served.send(AGENT_LIMITS, fields)

    assert answer.headers["location"].endswith("?changed=next-poll#limits")
    notice = Page((await served.get(answer.headers["location"])).text).one("p", "notice")
    assert notice.has_class("problem")
    assert "within 30 s" in notice.text
    assert (await set_now(served, AGENT_LIMITS)).overrides.requests_per_minute == 3


async def test_a_link_cannot_claim_a_change(served: Site) -> None:
    """Where nothing was changed lately, no notice says that it was."""
    for told in ("now", "next-poll", "other", "<b>"):
        page = Page(await served.shown(f"{ORGANIZATION}?changed={told}"))

        assert not page.all("p", "notice"), told


async def test_a_notice_is_not_told_for_ever(served: Site, pool: asyncpg.Pool) -> None:
    """A page that is loaded again after a minute does not say again that it was saved."""
    fields = await form_on(served, ORGANIZATION_LIMITS) | {"requests_per_minute": "7"}
    saved = await served.send(ORGANIZATION_LIMITS, fields)
    assert Page((await served.get(saved.headers["location"])).text).all("p", "notice")
    await pool.execute("UPDATE ibex_core.rate_limit_changes SET at = now() - interval '61 seconds'")

    page = Page((await served.get(saved.headers["location"])).text)

    assert not page.all("p", "notice")


async def test_the_address_of_a_form_leads_to_its_page(served: Site) -> None:
    """Where it stays in the browser's bar after a form was refused."""
    for pattern in FORMS:
        answer = await served.get(pattern)

        assert answer.status_code == httpx.codes.SEE_OTHER
        assert answer.headers["location"] == served.path(pattern).removesuffix("/limits")


async def test_a_form_leads_back_to_the_part_of_the_list_it_was_sent_from(
    served: Site, pool: asyncpg.Pool
) -> None:
    """Taken or refused, and from its address: who was on the second page stays there."""
    await pool.execute(
        "INSERT INTO ibex_core.agents (org_id, name)"
        " SELECT $1, n::text FROM generate_series(1, 60) n",
        served.world.ours.id,
    )
    second = Page(await served.shown(f"{ORGANIZATION}?page=2"))
    action = second.one("form", "limits").attributes["action"]

    refused = await served.send(action, typed(second) | {"requests_per_minute": "many"})
    saved = await served.send(action, typed(second) | {"requests_per_minute": "7"})
    led = await served.get(action)

    assert "Page 2 of 2" in Page(refused.text).text
    assert Page(refused.text).one("form", "limits").attributes["action"] == action
    for answer in (saved, led):
        assert "Page 2 of 2" in Page(await served.shown(answer.headers["location"])).text


async def test_an_agents_ceiling_cannot_be_set(served: Site) -> None:
    """It is the organization's: a field that is not in the form is left aside."""
    fields = await form_on(served, AGENT_LIMITS) | {"tokens_per_month": "5"}

    await served.send(AGENT_LIMITS, fields)

    assert (await set_now(served, AGENT_LIMITS)).overrides.tokens_per_month is None


async def test_a_form_of_another_site_changes_nothing(served: Site) -> None:
    """Though the browser sends the session along."""
    browser = await served.browser()
    fields = await form_on(served, ORGANIZATION_LIMITS) | {"requests_per_minute": "1"}

    answer = await browser.post(
        served.path(ORGANIZATION_LIMITS), data=fields, headers={"Sec-Fetch-Site": "cross-site"}
    )

    assert answer.status_code == httpx.codes.FORBIDDEN
    assert served.world.channel.published == []


async def test_the_form_says_what_is_inherited(served: Site) -> None:
    """And from where; the field is empty then."""
    page = Page(await served.shown(AGENT))

    assert page.one("input", id="requests_per_minute").attributes["value"] == ""
    assert "In force: 60, the platform's default." in page.text
    rows = [row.text for row in page.all("tr")]
    assert "Requests per minute, this agent 60 inherited: the platform's default for agents" in rows
    assert not any("platform 6" in row for row in rows)
    assert "Requests per minute, platform 6\u202f000 by the platform" in [
        row.text for row in Page(await served.shown(AGENT, Role.PLATFORM)).all("tr")
    ]

"""Names are data: on every page they read as they were given."""

import json
from dataclasses import replace

from html_reader import Page
from operators import Tenant
from pages_server import AGENT, AGENT_HISTORY, CHANGES, HISTORY, ORGANIZATION, OVERVIEW, Site

from db.api_keys import Role
from db.limits import OverrideChange
from graphql_api.model import Viewer

NAMES = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "{{ 7*7 }}{% raw %}",
    "%{y} %{customdata}",
    "<b>bold</b><br>",
    "$tex$ \\(x\\)",
    '"\' onload=alert(1) x="',
    "&lt;already&gt; &amp;",
    "\u202egnirts \u2066x",
    "名前 🙂",
    "a" * 200,
)


async def named(served: Site, name: str) -> Site:
    """An organization, agent, key and operator's key, all of that name, and a changed limit."""
    world = served.world
    organization = await world.management.create_organization(world.platform, name)
    agent = (await world.management.create_agent(world.platform, organization.id, name)).value
    for agent_id, role in ((agent.id, Role.AGENT), (None, Role.ADMIN)):
        issued = await world.management.issue_key(
            world.platform,
            role=role,
            organization_id=organization.id,
            agent_id=agent_id,
            name=name,
        )
    key = issued.value
    viewer = Viewer(key.key.id, name, Role.ADMIN, organization.id)
    for whose in (agent.id, None):
        await world.management.update_rate_limits(
            viewer, organization.id, whose, OverrideChange(5), expected_version=None, via="rest"
        )
    ours = Tenant(
        organization.id, agent.id, viewer, viewer,
        {**world.ours.secrets, Role.ADMIN: key.secret}, world.ours.key_ids,
    )  # fmt: skip
    return replace(served, world=replace(world, ours=ours), browsers={})


async def test_names_read_as_they_were_given(served: Site) -> None:
    """In headings, titles, links, tables, the breadcrumb and the page with the form."""
    for name in NAMES:
        await reads_as_given(served, name)


async def reads_as_given(served: Site, given: str) -> None:
    site = await named(served, given)
    for pattern in (ORGANIZATION, AGENT, CHANGES, HISTORY, AGENT_HISTORY):
        page = Page(await site.shown(pattern))
        assert given in page.heading
        if pattern in (ORGANIZATION, AGENT):
            assert page.one("title").text == f"{given} - Ibex"
        assert page.one("span", "viewer-name").text == given
        assert {each.attributes.get("src", "").split("/")[-1] for each in page.all("script")} <= {
            "", "plotly.min.js", "dashboard.js",
        }  # fmt: skip
        assert not any(name.startswith("on") for each in page.elements for name in each.attributes)
    agents = Page(await site.shown(ORGANIZATION)).all("a", href=site.path(AGENT))
    assert [each.text for each in agents] == [given]
    crumbs = Page(await site.shown(AGENT)).all("a", href=site.path(ORGANIZATION))
    assert [each.text for each in crumbs] == [given]
    assert any(given in row.text and "live" in row.text
               for row in Page(await site.shown(AGENT)).all("tr"))  # fmt: skip
    of_agent, of_organization = Page(await site.shown(CHANGES)).all("tr")[1:][::-1]
    assert given in of_agent.text
    assert given in of_organization.text
    overview = Page(await site.shown(OVERVIEW, Role.PLATFORM))
    assert given in [each.text for each in overview.all("a", href=site.path(ORGANIZATION))]


async def test_a_name_does_not_end_the_figures_script(served: Site) -> None:
    """The JSON is whole, and so is the page behind it."""
    site = await named(served, "</script><!--")

    page = Page(await site.shown(ORGANIZATION))

    for script in page.all("script", type="application/json"):
        assert json.loads(script.text)["data"]
    assert page.one("input", id="requests_per_minute").attributes["value"] == "5"

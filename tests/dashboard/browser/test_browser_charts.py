"""The charts as a real browser draws them: fresh, and as the reader has left them."""

import re

import pytest
from operator_browser import Office, Open, drawn, requests_field, sign_in, update, updated
from playwright.sync_api import Page, Route, expect
from servers import eventually

PLOT = "[data-figure=requests] .plot"
MARKUP = "<i>{{7*7}}$y$%{y}"
"""Read as markup by HTML, templates, or Plotly; short enough for a chart's title."""
NARROW = {"width": 360, "height": 740}
WIDE = {"width": 1920, "height": 1080}
TEXTS = """() => {
    const plot = document.querySelector("[data-figure=requests] .plot");
    const room = plot.getBoundingClientRect();
    const isCut = (text) => {
        const box = text.getBoundingClientRect();
        return box.left < room.left || box.right > room.right
            || box.top < room.top || box.bottom > room.bottom;
    };
    const texts = [...plot.querySelectorAll("svg text")].filter((text) => text.textContent);
    return [texts, texts.filter(isCut)].map((some) => some.map((text) => text.textContent));
}"""
"""What is written in the chart, and what of it is cut."""


@pytest.fixture
def page(office: Office, open_page: Open) -> Page:
    """The organization's page, with some traffic."""
    office.chats(2)
    found = open_page(office.sign_in_url)
    sign_in(found, office.admin)
    return found


def asked(page: Page) -> list[str]:
    """The requests for newer numbers from now on."""
    found: list[str] = []
    page.on("request", lambda it: found.append(it.url) if it.url.endswith("/live") else None)
    return found


def x_range(page: Page) -> list[str]:
    """The times between which the chart is shown now."""
    found: list[str] = page.evaluate(f"document.querySelector('{PLOT}').layout.xaxis.range")
    return found


def zoom_to_a_part(page: Page) -> None:
    """Draw a frame around the middle of the chart."""
    box = page.locator(f"{PLOT} .nsewdrag").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.4, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=4)
    page.mouse.up()


def set_hidden(page: Page, value: str) -> None:
    """Tell the page that it is or is not to be seen."""
    page.evaluate(
        """(value) => {
            const hidden = { value: value === "hidden", configurable: true };
            Object.defineProperty(document, "hidden", hidden);
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        value,
    )


def test_newer_numbers_leave_zoom_focus_and_open_tables_alone(office: Office, page: Page) -> None:
    """Numbers change; what the reader has zoomed to, opened and typed stays."""
    whole = x_range(page)
    zoom_to_a_part(page)
    part = x_range(page)
    table = page.locator("[data-figure=requests] details")
    table.locator("summary").click()
    requests_field(page).fill("12")
    office.chats(4)

    update(page)

    assert sum(drawn(page)["admitted"]) == 6
    assert x_range(page) == part != whole
    expect(table.locator("tbody tr").first).to_be_visible()
    expect(requests_field(page)).to_be_focused()
    expect(requests_field(page)).to_have_value("12")
    expect(page.locator(".card .used").first).to_have_text("6")


def let_an_hour_pass(page: Page) -> list[str]:
    """The page is told that its charts are of a later hour from now on; returns that."""
    later = ["2040-01-01 00:00:30", "2040-01-01 01:00:30"]

    def answer(route: Route) -> None:
        response = route.fetch()
        news = response.json()
        for figure in news["figures"].values():
            figure["layout"]["xaxis"]["range"] = later
        route.fulfill(response=response, json=news)

    page.route("**/live*", answer)
    return later


def test_a_zoom_outlives_the_minute_until_it_is_taken_back(page: Page) -> None:
    """Charts go on with the time; a reader who looks at a part goes on after a double click."""
    zoom_to_a_part(page)
    part = x_range(page)
    later = let_an_hour_pass(page)

    for _ in range(2):
        update(page)
        assert x_range(page) == part
    page.locator(f"{PLOT} .nsewdrag").dblclick()
    update(page)

    assert x_range(page) == later


def test_a_part_that_has_the_focus_is_not_replaced(office: Office, page: Page) -> None:
    """Who goes through a list by keys keeps the place; the list is fresh once it is left."""
    link = page.get_by_role("link", name="agent 0")
    row = page.get_by_role("row").filter(has=link)
    link.focus()
    office.chats(5)

    update(page)

    expect(link).to_be_focused()
    expect(row.locator(".used")).to_have_text("2")
    requests_field(page).focus()
    update(page)
    expect(row.locator(".used")).to_have_text("7")


def test_a_hidden_page_asks_nothing_and_catches_up_when_seen(office: Office, page: Page) -> None:
    """No request while nobody looks, and one at once when somebody does again."""
    seen = asked(page)
    update(page)
    before = len(seen)
    set_hidden(page, "hidden")

    page.clock.fast_forward(600_000)
    office.chats(1)
    page.evaluate("null")  # what it has asked until now is known when it answers
    while_hidden = len(seen) - before
    with page.expect_response("**/live"):
        set_hidden(page, "visible")

    assert while_hidden == 0
    expect(page.locator(".card .used").first).to_have_text("3")


def test_charts_follow_the_color_scheme(page: Page) -> None:
    """Text and lines are drawn in the page's colors, at once when these change."""
    color = f"getComputedStyle(document.querySelector('{PLOT} .gtitle')).fill"
    light = page.evaluate(color)

    page.emulate_media(color_scheme="dark")

    expect(page.locator(f"{PLOT} .gtitle")).not_to_have_css("fill", light)
    text = page.evaluate("getComputedStyle(document.querySelector('.plot')).color")
    expect(page.locator(f"{PLOT} .gtitle")).to_have_css("fill", text)


@pytest.mark.parametrize("viewport", [NARROW, WIDE], ids=["narrow", "wide"])
def test_nothing_is_cut_at_any_width(
    office: Office, open_page: Open, viewport: dict[str, int]
) -> None:
    """The page does not scroll sideways, and legend and title are inside of the chart."""
    office.stack.tenants.limit(office.tenant, rpm=2)
    assert eventually(lambda: office.chat() == 429)
    page = open_page(office.sign_in_url, viewport=viewport)
    sign_in(page, office.admin)
    assert eventually(lambda: "denied: organization" in updated(page))

    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    shown, cut = page.evaluate(TEXTS)
    assert {"admitted", "denied: organization", "limit 2", "running"} <= set(shown)
    assert cut == []


def test_times_are_utc_and_the_readers_own_on_hover(office: Office, open_page: Open) -> None:
    """Half an hour and more apart, both are told: on the chart and in a time's title."""
    office.chats(1)
    page = open_page(office.sign_in_url, timezone_id="Asia/Kathmandu")
    sign_in(page, office.admin)
    box = page.locator(f"{PLOT} .nsewdrag").bounding_box()
    assert box is not None

    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)

    hover = page.locator(f"{PLOT} .hoverlayer")
    expect(hover).to_contain_text(re.compile(r"\d\d:\d\d UTC"))
    expect(hover).to_contain_text("where you are")
    utc, local = (
        int(hour) * 60 + int(minute)
        for hour, minute in re.findall(r"(\d\d):(\d\d)", hover.text_content() or "")[:2]
    )
    assert (local - utc) % 720 == 345  # the clock of the locale has twelve hours
    expect(page.locator("time[data-local]").first).to_have_attribute("title", re.compile("5:45"))


def test_names_that_look_like_markup_are_shown_as_they_are(office: Office, open_page: Open) -> None:
    """In headings, tables, the page's title, and the chart's title as it is drawn."""
    named = office.named(f"O{MARKUP}", f"A{MARKUP}</script><script>alert(1)</script>")
    named.chats(1)
    page = open_page(office.sign_in_url)

    sign_in(page, office.platform)
    expect(page.get_by_role("link", name=f"O{MARKUP}", exact=True)).to_be_visible()
    page.goto(named.organization_url)

    expect(page.get_by_role("heading", level=1)).to_have_text(f"O{MARKUP}")
    assert page.title().startswith(f"O{MARKUP}")
    expect(page.locator(f"{PLOT} .gtitle")).to_have_text(f"Requests per minute: O{MARKUP}")
    page.get_by_role("link", name="</script>").click()
    expect(page.locator(f"{PLOT} .gtitle")).to_have_text(f"Requests per minute: A{MARKUP}<…")


def test_a_limit_below_its_use_is_seen_across_the_bars(office: Office, page: Page) -> None:
    """Its line is drawn upon a wider one in the color of the page, which parts it from the bars."""
    office.stack.tenants.limit(office.tenant, rpm=1)
    page.reload()

    margin, line = page.evaluate(
        f"""[...document.querySelectorAll("{PLOT} .shapelayer path")]
            .map((path) => getComputedStyle(path)).filter((style) => style.stroke !== "none")
            .filter((style) => parseFloat(style.strokeWidth) > 0)
            .map((style) => [parseFloat(style.strokeWidth), style.stroke])"""
    )

    assert margin[0] > line[0]
    chart = "getComputedStyle(document.querySelector('.chart')).backgroundColor"
    assert margin[1] == page.evaluate(chart)
    assert line[1] == page.evaluate("getComputedStyle(document.querySelector('.plot')).color")


def test_a_time_at_the_edge_is_not_cut(office: Office, open_page: Open) -> None:
    """Where an hour begins with a full ten minutes, and the counts are short."""
    page = open_page(office.sign_in_url, viewport=WIDE)
    sign_in(page, office.admin)

    page.evaluate(
        f"Plotly.relayout(document.querySelector('{PLOT}'),"
        " {'xaxis.range': ['2040-01-01 00:00', '2040-01-01 01:00'], 'yaxis.range': [0, 5]})"
    )

    shown, cut = page.evaluate(TEXTS)
    assert "00:00" in shown
    assert cut == []

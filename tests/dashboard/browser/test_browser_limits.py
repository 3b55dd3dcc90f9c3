"""An operator reads numbers and changes limits in a real browser, while an agent runs."""

from operator_browser import Faults, Office, Open, drawn, requests_field, sign_in, updated
from playwright.sync_api import Page, expect
from servers import eventually


def card(page: Page, title: str) -> str:
    """The number that a card shows."""
    cards = page.locator(".card", has=page.get_by_role("heading", name=title))
    return cards.locator(".used").first.inner_text()


def test_the_numbers_are_those_of_the_api(office: Office, open_page: Open) -> None:
    """Requests of the last minute and tokens of the month read the same on the page."""
    assert office.chats(3) == [200] * 3
    page = open_page(office.sign_in_url)

    sign_in(page, office.admin)

    told = office.told()
    assert told["current_minute_requests"] == 3
    assert card(page, "Requests, last 60 s") == "3"
    assert card(page, "Tokens this month") == str(told["current_month_tokens"])
    assert sum(drawn(page)["admitted"]) == 3
    tokens = drawn(page, "tokens")
    assert sum(map(sum, tokens.values())) == told["current_month_tokens"]


def test_a_limit_set_on_the_page_stops_a_running_agent_and_the_chart_shows_it(
    office: Office, open_page: Open
) -> None:
    """Admitted, then denied within moments of saving; the denials are drawn and counted."""
    agent = office.tenant.agent
    assert set(office.chats(5)) == {200}
    page = open_page(office.sign_in_url)
    sign_in(page, office.admin)
    page.goto(office.agent_url(agent))

    requests_field(page).fill("5")
    page.get_by_role("button", name="Save limits").click()

    expect(page.get_by_text("In force now")).to_be_visible()
    assert eventually(lambda: office.chat() == 429, 5)
    denied = office.chats(3).count(429)
    assert denied == 3
    assert office.told(agent)["agent_requests_per_minute"] == 5

    assert eventually(lambda: sum(updated(page).get("denied: agent", [])) >= denied, 15)
    expect(page.locator(".plot .legendtext", has_text="denied: agent")).to_be_visible()
    expect(page.locator(".plot .annotation-text", has_text="limit 5")).to_be_visible()


def test_a_refused_limit_is_explained_at_its_field(
    office: Office, open_page: Open, faults: Faults
) -> None:
    """What was typed is kept, the field has the focus, and nothing was changed."""
    faults.expected.add("status of 422")
    page = open_page(office.sign_in_url)
    sign_in(page, office.admin)

    field = requests_field(page)
    field.fill("many")
    field.press("Enter")

    expect(field).to_be_focused()
    expect(field).to_have_value("many")
    expect(field).to_have_attribute("aria-invalid", "true")
    assert office.told()["org_requests_per_minute"] == 1000


def test_the_keyboard_alone_signs_in_and_changes_a_limit(office: Office, open_page: Open) -> None:
    """No pointer is needed: what is needed can be reached, seen and sent by keys."""
    page = open_page(office.sign_in_url)
    expect(page.get_by_label("Operator key")).to_be_focused()
    page.keyboard.type(office.admin)
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_url("**/organizations/**")
    field = requests_field(page)

    for _ in range(60):
        page.keyboard.press("Tab")
        if field.evaluate("(it) => it === document.activeElement"):
            break
    outline = field.evaluate("(it) => getComputedStyle(it).outlineStyle")
    page.keyboard.press("Control+A")
    page.keyboard.type("77")
    page.keyboard.press("Enter")

    expect(page.get_by_text("In force now")).to_be_visible()
    assert outline != "none"
    assert office.told()["org_requests_per_minute"] == 77


def test_who_only_reads_finds_no_form(office: Office, open_page: Open) -> None:
    """The page says which keys can change a limit."""
    page = open_page(office.sign_in_url)

    sign_in(page, office.read_only)

    expect(page.locator("#limits")).to_contain_text("only reads")
    expect(page.get_by_role("button", name="Save limits")).to_have_count(0)


def test_everything_but_drawing_works_without_scripts(office: Office, open_page: Open) -> None:
    """Sign in, read the hour as a table, change a limit."""
    office.chats(2)
    page = open_page(office.sign_in_url, java_script_enabled=False)
    sign_in(page, office.admin)

    page.locator("[data-figure=requests] summary").click()
    admitted = page.locator("[data-figure=requests] tbody td:nth-of-type(1)").all_inner_texts()
    requests_field(page).fill("44")
    page.get_by_role("button", name="Save limits").click()

    assert sum(map(int, admitted)) == 2
    expect(page.get_by_text("In force now")).to_be_visible()
    assert office.told()["org_requests_per_minute"] == 44

"""What the page says when something does not answer, and that it recovers by itself."""

from operator_browser import Faults, Office, Open, drawn, sign_in, update, updated
from playwright.sync_api import expect
from servers import eventually

UNANSWERED = "the gateway does not answer"


def test_a_gateway_that_does_not_answer_leaves_the_numbers_and_says_of_when_they_are(
    office: Office, open_page: Open, faults: Faults
) -> None:
    """The banner comes with the first question that fails, and goes with one that succeeds."""
    faults.expected.add("net::ERR_INTERNET_DISCONNECTED")
    office.chats(2)
    page = open_page(office.sign_in_url)
    sign_in(page, office.admin)
    banner = page.get_by_role("status").filter(has_text=UNANSWERED)
    expect(banner).to_have_count(0)

    page.context.set_offline(True)
    page.clock.fast_forward(10_000)

    expect(banner).to_be_visible()
    expect(banner).to_contain_text("UTC")
    expect(page.locator(".card .used").first).to_have_text("2")
    page.context.set_offline(False)
    update(page)
    expect(banner).to_have_count(0)


def test_without_redis_the_page_says_that_nothing_is_limited_and_keeps_the_last_numbers(
    own_office: Office, open_page: Open
) -> None:
    """What was known stays, marked with its time; afterwards the chart marks the minutes."""
    office = own_office
    office.chats(2)
    page = open_page(office.sign_in_url)
    sign_in(page, office.admin)
    update(page)

    office.stack.redis.stop()
    assert office.chats(7) == [200] * 7
    update(page)

    banner = page.locator(".banner", has_text="Limiter open")
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("last known")
    expect(page.locator(".card .used").first).to_have_text("2")

    office.stack.redis.start()
    assert eventually(lambda: sum(filter(None, updated(page).get("limiter open", []))) > 0, 20)
    expect(banner).to_have_count(0)
    expect(page.locator(".annotation-text", has_text="7 undecided").first).to_be_visible()
    assert sum(filter(None, drawn(page)["admitted"])) == 2


def test_a_revoked_key_leads_to_the_sign_in_and_back(
    office: Office, open_page: Open, faults: Faults
) -> None:
    """The page notices with its next question, and the way back is remembered."""
    faults.expected.add("status of 401")
    page = open_page(office.sign_in_url)
    sign_in(page, office.admin)
    here = page.url
    office.stack.tenants.run(lambda service: service.revoke_key(office.admin_key_id))

    page.clock.fast_forward(10_000)

    expect(page.get_by_label("Operator key")).to_be_visible()
    sign_in(page, office.read_only)
    assert page.url == here

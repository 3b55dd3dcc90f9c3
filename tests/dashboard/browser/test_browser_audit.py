"""Accessibility, checked by axe-core on every page, light and dark."""

import pytest
from audited import grave_faults
from operator_browser import Faults, Office, Open, sign_in


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault(
    office: Office, open_page: Open, axe: str, scheme: str
) -> None:
    """Neither with tables closed nor open, for the eyes of axe-core."""
    office.chats(2)
    page = open_page(office.sign_in_url, color_scheme=scheme)
    found = {"sign-in": grave_faults(page, axe)}
    sign_in(page, office.platform)

    for url in (
        f"{office.stack.url}/dashboard",
        office.organization_url,
        office.agent_url(office.tenant.agent),
        f"{office.organization_url}/changes",
        f"{office.organization_url}/history",
    ):
        page.goto(url)
        found[url] = grave_faults(page, axe)
        for table in page.locator("summary").all():
            table.click()
        found[f"{url}, tables open"] = grave_faults(page, axe)

    assert {place: faults for place, faults in found.items() if faults} == {}


def test_pages_that_say_no_have_no_serious_fault_either(
    office: Office, open_page: Open, axe: str, faults: Faults
) -> None:
    """What does not exist, a form that was refused, and a key that is none."""
    faults.expected |= {"status of 404", "status of 422", "status of 401"}
    page = open_page(office.sign_in_url)
    page.get_by_label("Operator key").fill("ibex_adm_nonsense")
    page.keyboard.press("Enter")
    page.locator("[aria-invalid]").wait_for()
    found = {"sign-in": grave_faults(page, axe)}
    sign_in(page, office.read_only)
    page.goto(f"{office.stack.url}/dashboard/organizations/nothing")
    found["nothing"] = grave_faults(page, axe)

    assert {place: faults for place, faults in found.items() if faults} == {}

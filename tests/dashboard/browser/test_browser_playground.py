"""The GraphQL playground, in a real browser."""

import json

import pytest
from missing import missing
from operator_browser import Faults, Office, Open
from playwright.sync_api import Locator, Page, expect

from graphql_api.playground import Playground

QUERY = "{ viewer { role organizationId } }"


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    """Its files are here, so that it needs no other host."""
    if not Playground().is_local:
        missing("the playground is not installed; `make setup` fetches it with npm")


def put(page: Page, editor: Locator, text: str) -> None:
    """Replace what is in an editor."""
    editor.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def test_a_query_is_typed_and_answered(office: Office, open_page: Open, faults: Faults) -> None:
    """With an operator's key among its headers, and from our own origin alone."""
    faults.expected.add("status of 401")  # it asks for the schema before it has a key
    page = open_page(f"{office.stack.url}/graphql")
    put(
        page,
        page.get_by_role("region", name="Headers"),
        json.dumps({"Authorization": f"Bearer {office.admin}"}),
    )
    put(page, page.get_by_role("region", name="Query Editor"), QUERY)

    page.keyboard.press("Control+Enter")

    answer = page.get_by_role("region", name="Result Window")
    expect(answer).to_contain_text(office.tenant.id)
    expect(answer).to_contain_text("ADMIN")

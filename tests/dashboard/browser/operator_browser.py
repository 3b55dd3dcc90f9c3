"""What operators do in their browser, and what must never happen there."""

import http.client
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gateway_stack import Agent, Stack, Tenant
from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request

from db.api_keys import Role
from graphql_api.service import Service

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (violation) =>
  reportViolation(`${violation.effectiveDirective} ${violation.blockedURI} ${violation.sourceFile}`)
);
"""
Open = Callable[..., Page]
"""Opens a page, see conftest.py."""

BODY = b'{"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}'
INTERVAL_MS = 10_000
"""After so long a page asks for newer numbers."""


@dataclass
class Faults:
    """Violations of the content security policy, requests to other hosts, errors of scripts."""

    found: list[str] = field(default_factory=list)
    expected: set[str] = field(default_factory=set)
    """Parts of messages that the test itself brings about."""

    @property
    def unexpected(self) -> list[str]:
        return [fault for fault in self.found if not any(part in fault for part in self.expected)]

    def watch(self, context: BrowserContext, url: str) -> None:
        """Note what goes wrong from now on in any page of the context."""
        host = urlsplit(url).netloc

        def requested(request: Request) -> None:
            found = urlsplit(request.url)
            if found.scheme not in ("data", "blob") and found.netloc != host:
                self.found.append(f"outside request {request.url}")

        def said(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self.found.append(f"console {message.type} {message.text}")

        context.on("request", requested)
        context.on("console", said)
        context.on("weberror", lambda error: self.found.append(f"script {error.error}"))
        context.expose_function(
            "reportViolation", lambda text: self.found.append(f"violation {text}")
        )
        context.add_init_script(REPORT_VIOLATIONS)


class Office:
    """A running gateway, an organization on it, and a key for each kind of operator."""

    def __init__(self, stack: Stack, tenant: Tenant | None = None) -> None:
        self.stack = stack
        self.tenant = tenant or stack.tenants.create(
            org_rpm=1000, agent_rpm=500, tokens=10**6, agents=2
        )
        self.admin_key_id, self.admin = self._key(Role.ADMIN)
        _, self.read_only = self._key(Role.READ_ONLY)
        self.platform = stack.tenants.run(lambda service: service.issue_platform_key()).value.key

    def named(self, organization: str, agent: str) -> "Office":
        """The same of an organization with these names."""

        async def provision(service: Service) -> Tenant:
            org_id = (await service.create_organization(organization)).id
            agent_id = (await service.create_agent(org_id, agent)).value.id
            key = (await service.issue_agent_key(agent_id)).value.key
            return Tenant(org_id, (Agent(agent_id, key),))

        return Office(self.stack, self.stack.tenants.run(provision))

    def _key(self, role: Role) -> tuple[str, str]:
        """Its id and the key."""
        tenants = self.stack.tenants
        key = tenants.run(lambda it: it.issue_operator_key(self.tenant.id, role)).value
        return key.id, key.key

    @property
    def sign_in_url(self) -> str:
        return f"{self.stack.url}/dashboard/sign-in"

    @property
    def organization_url(self) -> str:
        return f"{self.stack.url}/dashboard/organizations/{self.tenant.id}"

    def agent_url(self, agent: Agent) -> str:
        return f"{self.stack.url}/dashboard/agents/{agent.id}"

    def chat(self, agent: Agent | None = None) -> int:
        """One request of an agent; returns the status of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.gateway.port, timeout=30)
        headers = {"Content-Type": "application/json", **(agent or self.tenant.agent).bearer}
        try:
            connection.request("POST", "/raw/v1/chat/completions", BODY, headers)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def chats(self, count: int, agent: Agent | None = None) -> list[int]:
        return [self.chat(agent) for _ in range(count)]

    def told(self, agent: Agent | None = None) -> dict[str, Any]:
        """What the REST API says of the organization or an agent."""
        path = f"/v1/organizations/{self.tenant.id}"
        path += f"/agents/{agent.id}" if agent else ""
        headers = {"Authorization": f"Bearer {self.admin}"}
        status, body = self.stack.gateway.get(f"{path}/rate-limits", headers)
        assert status == 200
        assert isinstance(body, dict)
        return body


def requests_field(page: Page) -> Locator:
    """Where an operator types a limit of requests."""
    return page.get_by_role("textbox", name="Requests per minute")


def update(page: Page) -> None:
    """Let the page ask for newer numbers now, and show them. Its clock is the test's."""
    with page.expect_response("**/live*") as answer:
        page.clock.fast_forward(INTERVAL_MS)
    answer.value.finished()
    page.evaluate("() => new Promise((shown) => requestAnimationFrame(shown))")


def drawn(page: Page, figure: str = "requests") -> dict[str, list[Any]]:
    """The heights of the bars of a chart as it is drawn now, by what the legend calls them."""
    found: dict[str, list[Any]] = page.evaluate(
        """(name) => Object.fromEntries(
            document.querySelector(`[data-figure=${name}] .plot`).data
                .filter((trace) => trace.type === "bar").map((trace) => [trace.name, trace.y]))""",
        figure,
    )
    return found


def updated(page: Page, figure: str = "requests") -> dict[str, list[Any]]:
    """The same with newer numbers."""
    update(page)
    return drawn(page, figure)


def sign_in(page: Page, key: str) -> None:
    """Paste the key into the form that is shown."""
    page.get_by_label("Operator key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/dashboard**")
    page.get_by_role("button", name="Sign out").wait_for()

"""The operators' pages on a port, over a world of operators, as signed-in browsers ask for them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import sanic_apps
from operators import NOWHERE, World
from sanic import HTTPResponse, Request
from session_server import AT_ONCE, BROWSER, SIGN_IN, Gate

from dashboard import failures, pages, sign_in
from dashboard.pace import Pace
from dashboard.parts import Parts
from dashboard.session import Sessions
from db.api_keys import Role
from graphql_api import problems
from graphql_api.auth import Authenticator
from lua.connection import RedisAddress, connect
from lua.sessions import SessionStore

OVERVIEW = "/dashboard"
ORGANIZATION = "/dashboard/organizations/{organization_id}"
AGENT = "/dashboard/agents/{agent_id}"
CHANGES = f"{ORGANIZATION}/changes"
ORGANIZATION_LIMITS = f"{ORGANIZATION}/limits"
AGENT_LIMITS = f"{AGENT}/limits"
HISTORY = f"{ORGANIZATION}/history"
AGENT_HISTORY = f"{AGENT}/history"
PAGES = (OVERVIEW, ORGANIZATION, AGENT, CHANGES, HISTORY, AGENT_HISTORY)
MOVING = (OVERVIEW, ORGANIZATION, AGENT)
"""The pages with live numbers."""


@dataclass
class Site:
    """What browsers find. Each role of ours has a browser of its own."""

    world: World
    url: str
    redis: Any
    stack: AsyncExitStack
    browsers: dict[Role | None, httpx.AsyncClient] = field(default_factory=dict)

    async def browser(self, role: Role | None = Role.ADMIN) -> httpx.AsyncClient:
        """A browser in which somebody of that role has signed in; None: nobody has."""
        if role not in self.browsers:
            client = httpx.AsyncClient(base_url=self.url, timeout=20, trust_env=False)
            self.browsers[role] = await self.stack.enter_async_context(client)
            if role is not None:
                answer = await client.post(SIGN_IN, headers=BROWSER, data={"key": self.key(role)})
                assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
        return self.browsers[role]

    def key(self, role: Role) -> str:
        """A key of ours, or the platform's."""
        ours: Mapping[Role, str] = self.world.ours.secrets
        return self.world.platform_key if role is Role.PLATFORM else ours[role]

    def path(self, pattern: str, whose: str = "ours") -> str:
        """The path of a page of `ours` or `theirs`, or of what there is not (`nobody`)."""
        tenant = {"ours": self.world.ours, "theirs": self.world.theirs}.get(whose)
        return pattern.format(
            organization_id=tenant.id if tenant else NOWHERE,
            agent_id=tenant.agent_id if tenant else NOWHERE,
        )

    async def get(
        self, pattern: str, role: Role | None = Role.ADMIN, whose: str = "ours", **how: Any
    ) -> httpx.Response:
        """A page by its pattern."""
        return await (await self.browser(role)).get(self.path(pattern, whose), **how)

    async def shown(self, pattern: str, role: Role | None = Role.ADMIN, **how: Any) -> str:
        """The HTML of a page of ours."""
        answer = await self.get(pattern, role, **how)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.text

    async def send(
        self,
        pattern: str,
        fields: Mapping[str, str],
        role: Role | None = Role.ADMIN,
        whose: str = "ours",
    ) -> httpx.Response:
        """A form of ours, as a browser sends it."""
        browser = await self.browser(role)
        return await browser.post(self.path(pattern, whose), headers=BROWSER, data=dict(fields))


@asynccontextmanager
async def site(world: World, redis_url: str) -> AsyncIterator[Site]:
    """Everything under /dashboard."""
    redis = connect(RedisAddress(redis_url), timeout_s=2)
    store = SessionStore(redis, Gate())
    sessions = Sessions(store, Authenticator(world.repository))
    pace = Pace(store, trusted_proxies=0, delays_s=AT_ONCE)
    app = sanic_apps.new_app()
    sign_in.register(app, lambda _: sessions, lambda _: pace)
    pages.register(app, lambda _: Parts(world.management, sessions))
    app.error_handler.add(Exception, _failure)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(redis.aclose)
        url = await stack.enter_async_context(sanic_apps.serving(app))
        yield Site(world, url, redis, stack)


def _failure(request: Request, error: Exception) -> HTTPResponse:
    """As the composition answers what goes wrong before a route is reached."""
    return failures.answer(request, error, problems.new_request_id())

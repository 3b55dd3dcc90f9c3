"""The sign-in of the dashboard on a port, over a world of operators, as browsers speak to it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import sanic_apps
from operators import World
from sanic import HTTPResponse, Request
from sanic.response import text

from dashboard import failures, sign_in, static_files
from dashboard.guard import guarded
from dashboard.pace import Pace
from dashboard.session import Sessions
from db.api_keys import Role
from graphql_api import problems
from graphql_api.auth import Authenticator
from lua.connection import RedisAddress, connect
from lua.sessions import SessionStore

SIGN_IN = "/dashboard/sign-in"
SIGN_OUT = "/dashboard/sign-out"
WHO = "/dashboard/who"
NOBODY = "nobody"
FORM = "application/x-www-form-urlencoded"
BROWSER = {"Sec-Fetch-Site": "same-origin", "Content-Type": FORM}
COOKIE = "ibex_session"
AT_ONCE = (0.0,)
"""A pace that lets nobody wait."""


class Clock:
    """Unix seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 1_796_000_000.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """A gate that a test opens and closes."""

    def __init__(self) -> None:
        self.is_open = False

    def succeeded(self) -> None:
        """Nothing comes of it."""

    def failed(self, reason: str) -> None:
        """Nothing comes of it."""


@dataclass(frozen=True)
class Door:
    """What a browser finds, and what a test changes behind it."""

    world: World
    url: str
    client: httpx.AsyncClient
    sessions: Sessions
    pace: Pace
    gate: Gate
    clock: Clock

    def key(self, role: Role = Role.ADMIN) -> str:
        """A key of ours, or the platform's."""
        return self.world.platform_key if role is Role.PLATFORM else self.world.ours.secrets[role]

    async def post(
        self, path: str, body: Any = None, headers: Mapping[str, str] = BROWSER
    ) -> httpx.Response:
        """A form by its fields, or as bytes."""
        what = {"content": body} if isinstance(body, bytes) else {"data": body or {}}
        return await self.client.post(path, headers=headers, **what)

    async def sign_in(self, key: str | None = None, **fields: str) -> httpx.Response:
        """With our admin's key, or another."""
        return await self.post(SIGN_IN, {"key": self.key() if key is None else key, **fields})

    async def who(self, token: str | None = None) -> str:
        """Whom a page takes a browser for: by this session alone, or by the client's own."""
        if token is None:
            answer = await self.client.get(WHO)
        else:
            async with httpx.AsyncClient(base_url=self.url, trust_env=False) as other:
                answer = await other.get(WHO, headers={"Cookie": f"{COOKIE}={token}"})
        return answer.text if answer.status_code == httpx.codes.OK else str(answer.status_code)

    @property
    def token(self) -> str | None:
        """The session that the client carries."""
        return self.client.cookies.get(COOKIE)


@asynccontextmanager
async def door(
    world: World, redis_url: str, *, delays_s: tuple[float, ...] = AT_ONCE, trusted_proxies: int = 0
) -> AsyncIterator[Door]:
    """The routes for signing in, and one that tells who has."""
    gate, clock = Gate(), Clock()
    redis = connect(RedisAddress(redis_url), timeout_s=2)
    store = SessionStore(redis, gate)
    sessions = Sessions(store, Authenticator(world.repository), clock)
    pace = Pace(store, trusted_proxies=trusted_proxies, delays_s=delays_s, clock=clock)

    async def who(request: Request) -> HTTPResponse:
        viewer = await sessions.viewer(request)
        return text(viewer.key_id if viewer else NOBODY)

    app = sanic_apps.new_app()
    static_files.register(app)
    sign_in.register(app, lambda _: sessions, lambda _: pace)
    app.add_route(guarded(who), WHO, methods=("GET", "POST"))
    app.error_handler.add(Exception, _failure)
    async with (
        sanic_apps.serving(app) as url,
        httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client,
    ):
        yield Door(world, url, client, sessions, pace, gate, clock)
    await redis.aclose()


def _failure(request: Request, error: Exception) -> HTTPResponse:
    """As the composition answers what goes wrong before a route is reached."""
    return failures.answer(request, error, problems.new_request_id())

"""The REST API on a port, over a world of operators, and what it answers."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx
import sanic_apps
from operators import NOWHERE, Tenant, World
from sanic import HTTPResponse, Request

from graphql_api import problems, rest
from graphql_api.auth import Authenticator

ORGANIZATION = "/v1/organizations/{organization_id}"
ORGANIZATION_LIMITS = f"{ORGANIZATION}/rate-limits"
AGENT_LIMITS = f"{ORGANIZATION}/agents/{{agent_id}}/rate-limits"
CHANGES = f"{ORGANIZATION}/rate-limits/changes"
KEYS = f"{ORGANIZATION}/keys"
ROLES = ("platform", "admin", "read_only", "agent")


@dataclass(frozen=True)
class Answer:
    """What came back. `body` is decoded JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def fields(self) -> list[str]:
        """What a problem names."""
        return [error["field"] for error in self.body.get("errors", [])]

    def without_request_id(self) -> tuple[int, dict[str, str], Any]:
        """All of it that does not differ from request to request."""
        moving = {"x-request-id", "date"}
        headers = {name: value for name, value in self.headers.items() if name not in moving}
        return self.status, headers, {**self.body, "request_id": ""}


class Rest:
    """Speaks to the API. `world` is what it serves."""

    def __init__(self, url: str, client: httpx.AsyncClient, world: World) -> None:
        self.url = url
        self.world = world
        self._client = client

    def key(self, role: str) -> str:
        """A key of ours, or the platform's."""
        secrets: Mapping[str, str] = {**self.world.ours.secrets}
        return self.world.platform_key if role == "platform" else secrets[role]

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: str | None = "admin",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Bytes go out as they are, with the content type that fits the method; else as JSON."""
        sent = dict(headers or {})
        if role is not None:
            sent.setdefault("Authorization", f"Bearer {self.key(role)}")
        if body is not None:
            merge = method == "PATCH"
            kind = "application/merge-patch+json" if merge else "application/json"
            sent.setdefault("Content-Type", kind)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        fields = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
        answer = await self._client.request(method, path, content=content, headers=fields)
        return Answer(answer.status_code, answer.headers, answer.json() if answer.content else None)

    async def read(self, path: str, *, role: str = "admin") -> Any:
        """What a route of ours answers, by its pattern, to whoever may see it."""
        answer = await self.call("GET", path_to(path, self.world.ours), role=role)
        assert answer.status == HTTPStatus.OK, answer
        return answer.body

    async def change(self, path: str, body: Any, **options: Any) -> Answer:
        """PATCH a route of ours, by its pattern."""
        return await self.call("PATCH", path_to(path, self.world.ours), body, **options)


def path_to(path: str, tenant: Tenant | None) -> str:
    """Fill in a tenant's ids, or ids that nothing has."""
    return path.format(
        organization_id=tenant.id if tenant else NOWHERE,
        agent_id=tenant.agent_id if tenant else NOWHERE,
        key_id=next(iter(tenant.key_ids.values())) if tenant else NOWHERE,
    )


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[Rest]:
    """The API on a port of its own, in this process."""
    app = sanic_apps.new_app()
    authenticator = Authenticator(world.repository)
    rest.register(app, lambda _: world.management, lambda _: authenticator)
    app.error_handler.add(Exception, _problem)
    async with (
        sanic_apps.serving(app) as url,
        httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client,
    ):
        yield Rest(url, client, world)


def _problem(_request: Request, error: Exception) -> HTTPResponse:
    """As the composition answers what goes wrong before a route is reached."""
    return problems.answer(error, problems.new_request_id())

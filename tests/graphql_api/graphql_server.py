"""The GraphQL face on a real server, in this process, and clients for it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from sanic_apps import new_app, serving

from graphql_api.auth import Authenticator
from graphql_api.management import Management
from graphql_api.view import register


@dataclass(frozen=True)
class Answer:
    """What came back for one query."""

    response: httpx.Response

    @property
    def data(self) -> Any:
        """The data, where there are no errors."""
        body = self.response.json()
        assert "errors" not in body, body
        return body["data"]

    @property
    def error(self) -> dict[str, Any]:
        """The one error."""
        (error,) = self.response.json()["errors"]
        assert isinstance(error, dict)
        return error

    @property
    def code(self) -> str:
        """The one error's code."""
        return str(self.error["extensions"]["code"])


class Caller:
    """Someone with a key, or without."""

    def __init__(self, client: httpx.AsyncClient, url: str, key: str | None) -> None:
        self._client = client
        self.url = url
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def with_key(self, key: str | None) -> "Caller":
        """Someone else, of the same server."""
        return Caller(self._client, self.url, key)

    async def ask(
        self, query: str, variables: Mapping[str, Any] | None = None, **more: Any
    ) -> Answer:
        """POST a query as JSON."""
        body = {"query": query, "variables": variables, **more}
        return Answer(await self._client.post(self.url, json=body, headers=self.headers))

    async def send(self, method: str = "POST", **what: Any) -> httpx.Response:
        """Send whatever is given; a header of None is not sent."""
        headers = {**self.headers, **what.pop("headers", {})}
        return await self._client.request(
            method,
            what.pop("url", self.url),
            headers={name: value for name, value in headers.items() if value is not None},
            **what,
        )


@dataclass(frozen=True)
class GraphQLServer:
    """A running server."""

    url: str
    client: httpx.AsyncClient

    def caller(self, key: str | None) -> Caller:
        return Caller(self.client, f"{self.url}/graphql", key)


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The one error of an answer, which has no data."""
    body = response.json()
    assert list(body) == ["errors"]
    (error,) = body["errors"]
    assert error["extensions"]["requestId"] == response.headers["x-request-id"]
    assert isinstance(error, dict)
    return error


@asynccontextmanager
async def graphql_server(
    management: Management, authenticator: Authenticator
) -> AsyncIterator[GraphQLServer]:
    """The routes of `register`, on a free port of loopback."""
    app = new_app()
    register(app, lambda _: management, lambda _: authenticator)
    async with serving(app) as url, httpx.AsyncClient(timeout=20, trust_env=False) as client:
        yield GraphQLServer(url, client)

"""The operators' pages, under /dashboard."""

from collections.abc import Callable, Coroutine
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import NotFound as NoRoute

from dashboard import failures, static_files
from dashboard.parts import Parts
from graphql_api import problems

App = Sanic[Any, Any]
Handler = Callable[..., Coroutine[Any, Any, HTTPResponse]]

__all__ = ["Parts", "register"]


def register(app: App, parts_of: Callable[[Request], Parts]) -> None:
    """Mount every page, what its script asks for, its forms, and the static files."""
    del parts_of
    static_files.register(app)
    app.add_route(guarded(_nothing), "/dashboard/<rest:path>", name="dashboard_nothing")


def guarded(handle: Handler) -> Handler:
    """Whatever goes wrong is answered as a page, and every answer has a request id."""

    async def answered(request: Request, **ids: str) -> HTTPResponse:
        request_id = problems.new_request_id()
        try:
            response = await handle(request, **ids)
        except Exception as error:  # noqa: BLE001 - logged there, and nothing leaks to the browser
            return failures.answer(request, error, request_id)
        response.headers["X-Request-Id"] = request_id
        return response

    return answered


async def _nothing(_request: Request, **_path: str) -> HTTPResponse:
    raise NoRoute

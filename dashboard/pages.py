"""The operators' pages, under /dashboard."""

from collections.abc import Callable
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import NotFound as NoRoute

from dashboard import static_files
from dashboard.guard import guarded
from dashboard.parts import Parts

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

App = Sanic[Any, Any]

__all__ = ["Parts", "register"]


def register(app: App, parts_of: Callable[[Request], Parts]) -> None:
    """Mount every page, what its script asks for, its forms, and the static files."""
    del parts_of
    static_files.register(app)
    app.add_route(
        guarded(_nothing),
        "/dashboard/<rest:path>",
        methods=METHODS,
        name="dashboard_nothing",
        stream=True,
    )


async def _nothing(_request: Request, **_path: str) -> HTTPResponse:
    raise NoRoute

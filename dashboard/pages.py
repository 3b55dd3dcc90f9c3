"""The operators' pages, under /dashboard."""

from collections.abc import Awaitable, Callable
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import NotFound as NoRoute
from sanic.response import redirect

from dashboard import (
    agent,
    changes,
    history,
    limits_change,
    organization,
    overview,
    rendering,
    static_files,
)
from dashboard.composing import ROOT
from dashboard.guard import guarded
from dashboard.memory import Memory
from dashboard.page import Visit, Visits
from dashboard.parts import Parts
from dashboard.security import secured

App = Sanic[Any, Any]
Page = Callable[..., Awaitable[HTTPResponse]]

__all__ = ["Parts", "register"]

_ORGANIZATION = f"{ROOT}/organizations/<organization_id:str>"
_AGENT = f"{ROOT}/agents/<agent_id:str>"
_READ, _SEND = ("GET", "HEAD"), ("POST",)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_NAMING = str.maketrans("/<>:", "____")
_ROUTES: tuple[tuple[str, Page, tuple[str, ...]], ...] = (
    (ROOT, overview.show, _READ),
    (f"{ROOT}/live", overview.show_live, _READ),
    (_ORGANIZATION, organization.show, _READ),
    (f"{_ORGANIZATION}/live", organization.show_live, _READ),
    (f"{_ORGANIZATION}/limits", organization.change_limits, _SEND),
    (f"{_ORGANIZATION}/limits", limits_change.back, _READ),
    (f"{_ORGANIZATION}/changes", changes.show, _READ),
    (f"{_ORGANIZATION}/history", history.show_organization, _READ),
    (_AGENT, agent.show, _READ),
    (f"{_AGENT}/live", agent.show_live, _READ),
    (f"{_AGENT}/history", history.show_agent, _READ),
    (f"{_AGENT}/limits", agent.change_limits, _SEND),
    (f"{_AGENT}/limits", limits_change.back, _READ),
)


def register(app: App, parts_of: Callable[[Request], Parts]) -> None:
    """Mount every page, what its script asks for, its forms, and the static files."""
    visits = Visits(parts_of, Memory())

    def route(page: Page) -> Callable[..., Any]:
        async def handle(request: Request, **ids: str) -> HTTPResponse:
            visit: Visit = await visits.of(request)
            return rendering.compressed(request, await page(visit, **ids))

        return guarded(handle)

    for path, page, methods in _ROUTES:
        name = f"{path}_{methods[0]}".translate(_NAMING)
        app.add_route(route(page), path, methods=methods, name=name, stream=True)
    static_files.register(app)
    app.add_route(
        guarded(_nothing), f"{ROOT}/<rest:path>", methods=_METHODS, name="dashboard_nothing",
        stream=True,
    )  # fmt: skip


async def _nothing(request: Request, **_path: str) -> HTTPResponse:
    """No page; but one that is asked for with a slash behind it is meant without."""
    if request.path.endswith("/") and request.method in _READ:
        return secured(redirect(request.path.rstrip("/"), status=308))
    raise NoRoute

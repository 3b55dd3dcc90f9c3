"""What the routes of all pages share: who asks, which page of a list, and the newest numbers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sanic import HTTPResponse, Request
from sanic.response import json

from dashboard import rendering
from dashboard.contexts import Chart, Outage
from dashboard.failures import SignInNeeded
from dashboard.formatting import iso
from dashboard.memory import Memory
from dashboard.parts import Parts
from dashboard.security import secured
from graphql_api.errors import BadInput
from graphql_api.management import Management
from graphql_api.model import Viewer

_PAGE = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who has signed in."""

    request: Request
    viewer: Viewer
    management: Management
    memory: Memory

    @property
    def page(self) -> int:
        """Which page of its list is asked for. Raises BadInput."""
        text = self.request.args.get("page", "1")
        if not _PAGE.fullmatch(text):
            raise BadInput("page", "must be a whole number from 1")
        return int(text)


@dataclass(frozen=True, slots=True)
class Visits:
    """Tells visitors, with what they are served. One for each worker."""

    parts_of: Callable[[Request], Parts]
    memory: Memory

    async def of(self, request: Request) -> Visit:
        """Who visits. Raises SignInNeeded, and what keeps that from being known."""
        parts = self.parts_of(request)
        viewer = await parts.sessions.viewer(request)
        if viewer is None:
            raise SignInNeeded
        request.ctx.viewer = viewer
        return Visit(request, viewer, parts.management, self.memory)


def live(context: Any, fragments: Mapping[str, str], charts: tuple[Chart, ...]) -> HTTPResponse:
    """The newest numbers for the page's script: {"as_of", "fragments", "figures"}.

    `fragments` names the template of each part of the page that moves.
    """
    as_of = context.as_of
    outage: Outage | None = context.outage
    body = {
        "as_of": iso(as_of) if as_of else None,
        "stale": outage is not None,
        "fragments": {name: rendering.html(each, context) for name, each in fragments.items()},
        "figures": {chart.name: chart.figure for chart in charts},
    }
    return secured(json(body))

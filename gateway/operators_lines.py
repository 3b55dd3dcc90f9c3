"""The line that each request of an operator leaves in the log: GraphQL, REST and the dashboard.

Who asked, for what, and what became of it. Never a key, a session, a query, a form or a body: of
what was sent there is only the operation's name, and that only if it can be nothing but a name.
"""

import re
import time
from typing import Any

from sanic import Request, Sanic
from sanic.response import BaseHTTPResponse

from gateway.endpoints import runtime_of
from gateway.journal import OperatorsLine, ms, timestamp

_FACES = re.compile(r"/(?:v1/.*|openapi\.json|graphql(?:/.*)?|dashboard(?:/.*)?)", re.DOTALL)
# Shorter than a session's token, which could be a name as well.
_NAME = re.compile(r"[A-Za-z_][0-9A-Za-z_]{0,39}")


def register(app: Sanic[Any, Any]) -> None:
    """Tell each request to what operators use. Those of agents do not come this way."""

    async def begin(request: Request) -> None:
        request.ctx.began = time.monotonic()

    async def end(request: Request, response: BaseHTTPResponse) -> None:
        journal = runtime_of(request).journal
        if journal.has_lines and request.route and _FACES.fullmatch(request.path):
            journal.tell(_line(request, response))

    app.register_middleware(begin, "request")
    app.register_middleware(end, "response")


def _line(request: Request, response: BaseHTTPResponse) -> OperatorsLine:
    context = request.ctx
    line = OperatorsLine(
        "operator request",
        request.method,
        f"/{request.route.path}",  # type: ignore[union-attr]  # it has one: see above
        response.status,
        ms(time.monotonic() - context.began),
        "info",
        timestamp(),
        request_id=response.headers.get("X-Request-Id", ""),
    )
    if viewer := getattr(context, "viewer", None):
        line.role, line.key_id = str(viewer.role), viewer.key_id
    name = getattr(context, "operation_name", None)
    if name and _NAME.fullmatch(name):
        line.operation = name
    return line

"""What an operator's browser is told when a request ends in an exception: a page, never a trace.

`/live` answers JSON, because a script asked: {"error": "..."}.
"""

from typing import NamedTuple
from urllib.parse import quote

import structlog
from sanic import HTTPResponse, Request
from sanic.exceptions import (
    MethodNotAllowed,
    PayloadTooLarge,
    RequestTimeout,
    SanicException,
    ServiceUnavailable,
)
from sanic.exceptions import NotFound as NoRoute
from sanic.response import json, redirect

from dashboard import rendering
from dashboard.patience import GivenUpError
from dashboard.security import CrossSite, secured
from graphql_api.errors import (
    BadInput,
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    LimiterError,
    NotFound,
    Unauthenticated,
)
from graphql_api.problems import SERVER_FAULT

SIGN_IN = "/dashboard/sign-in"

log = structlog.get_logger("ibex.dashboard")


class Told(NamedTuple):
    """A status, a heading, and a sentence; without one, what the error itself says."""

    status: int
    title: str
    message: str = ""


_NOTHING = Told(404, "Not found", "There is no such page, or your key does not see it.")
_KNOWN: tuple[tuple[type[Exception], Told], ...] = (
    (NotFound, _NOTHING),
    (NoRoute, _NOTHING),
    (CrossSite, Told(403, "Not sent from this site")),
    (Forbidden, Told(403, "Not allowed with your key")),
    (BadInput, Told(400, "This cannot be used")),
    (Conflict, Told(409, "It was changed meanwhile")),
    (
        GivenUpError,
        Told(
            503,
            "The database does not answer",
            "Traffic is not affected. If you were changing limits: whether they are changed is "
            "shown when it answers again.",
        ),
    ),
    (
        DatabaseUnavailable,
        Told(503, "The database does not answer", "Nothing was changed. Traffic is not affected."),
    ),
    (
        LimiterError,
        Told(503, "The live numbers cannot be read", "Redis does not answer."),
    ),
    (MethodNotAllowed, Told(405, "Not offered", "This page does not take that.")),
    (PayloadTooLarge, Told(413, "Too large", "That is more than this page takes.")),
    (RequestTimeout, Told(408, "Too slow", "The request took too long to arrive.")),
    (ServiceUnavailable, Told(503, "Not available now", "No answer was ready in time.")),
)
_IN_PATHS = ("organization_id", "agent_id")
"""What is no id is the address of no page."""
_MALFORMED = Told(400, "Not understood", "The request cannot be read as HTTP/1.1.")
_FAULT = Told(500, "Ibex failed", "Ibex failed to handle this request; the failure is logged.")


class SignInNeeded(Exception):  # noqa: N818 - not an error: an answer
    """Nobody has signed in."""


def answer(request: Request, error: Exception, request_id: str) -> HTTPResponse:
    """The answer to a request under /dashboard. A fault of ours is logged."""
    is_script = request.path.endswith("/live")
    if isinstance(error, SignInNeeded | Unauthenticated):
        return _to_sign_in(request, is_script=is_script)
    told = _told(error)
    if told is _FAULT:
        log.error("internal error", exc_info=error, request_id=request_id)
    elif told.status >= SERVER_FAULT:
        log.warning("page not available", reason=str(error), request_id=request_id)
    message = told.message or str(error)
    if is_script:
        body = {"error": message, "request_id": request_id}
        return secured(json(body, status=told.status))
    return rendering.error_page(told.status, told.title, message, request_id)


def _told(error: Exception) -> Told:
    if isinstance(error, BadInput) and error.field in _IN_PATHS:
        return _NOTHING
    for of_type, told in _KNOWN:
        if isinstance(error, of_type):
            return told
    if isinstance(error, SanicException) and error.status_code < SERVER_FAULT:
        return _MALFORMED
    return _FAULT


def _to_sign_in(request: Request, *, is_script: bool) -> HTTPResponse:
    """After signing in, a page that was asked for is shown; a form has to be sent again."""
    if is_script:
        return secured(json({"error": "sign in first"}, status=401))
    if request.method not in {"GET", "HEAD"} or request.path == "/dashboard":
        return secured(redirect(SIGN_IN, status=303))
    target = request.path + (f"?{request.query_string}" if request.query_string else "")
    return secured(redirect(f"{SIGN_IN}?next={quote(target, safe='/')}", status=303))

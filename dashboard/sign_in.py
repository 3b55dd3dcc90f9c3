"""Signing in with an operator's key, and out again.

The key is sent once, in the body of a form, and never shown: not in an address, a page or a log.
"""

import re
from collections.abc import Callable
from typing import Any

import structlog
from sanic import HTTPResponse, Request, Sanic
from sanic.response import redirect

from dashboard import form_body, rendering, security, session_cookie
from dashboard.contexts import Frame, Notice
from dashboard.failures import SIGN_IN
from dashboard.guard import Handler, guarded
from dashboard.pace import Pace, TooManyAttempts
from dashboard.session import Sessions
from dashboard.standing_contexts import SignIn
from graphql_api.errors import DatabaseUnavailable, LimiterError, Unauthenticated

log = structlog.get_logger("ibex.dashboard")

FIRST_PAGE = "/dashboard"
SIGN_OUT = "/dashboard/sign-out"
_PAGE = re.compile(r"/dashboard(?:/(?!sign-|live\b|static\b)[\w-]+)*(?:\?[\w=&%.~+-]*)?", re.ASCII)
_NO_KEY = "paste the key that was shown when it was issued"
_IN_THE_CLEAR = "nobody was signed in: your browser would not keep a session that came in the clear"
_NO_DATABASE = "the database does not answer, so no key can be checked now: try again"
_NO_REDIS = "sessions are kept in Redis, which does not answer: try again when it does"
_TOO_MANY = "too many sign-ins wait already: try again in {seconds} s"
_NOTICES = {
    "everywhere": Notice("You have signed out."),
    "here": Notice(
        "You have signed out in this browser. Redis could not be told: until it answers again, "
        "whoever holds a copy of the session's cookie can go on for at most 8 hours.",
        is_problem=True,
    ),
}


def register(
    app: Sanic[Any, Any],
    sessions_of: Callable[[Request], Sessions],
    pace_of: Callable[[Request], Pace],
) -> None:
    """Mount /dashboard/sign-in and /dashboard/sign-out."""

    async def show(request: Request) -> HTTPResponse:
        wanted = page_within(request.args.get("next", ""))
        if await _is_known(sessions_of(request), request):
            return security.secured(redirect(wanted, status=303))
        return _page(request, wanted, notice=_NOTICES.get(request.args.get("out", "")))

    async def sign_in(request: Request) -> HTTPResponse:
        return await _sign_in(request, sessions_of(request), pace_of(request))

    async def sign_out(request: Request) -> HTTPResponse:
        where = "everywhere" if await sessions_of(request).sign_out(request) else "here"
        response = redirect(f"{SIGN_IN}?out={where}", status=303)
        session_cookie.clear(request, response)
        return security.secured(response)

    reading, sending = ("GET", "HEAD"), ("POST",)
    routes: tuple[tuple[Handler, str, tuple[str, ...]], ...] = (
        (show, SIGN_IN, reading),
        (sign_in, SIGN_IN, sending),
        (sign_out, SIGN_OUT, sending),
    )
    for handler, path, methods in routes:
        name = f"dashboard_{handler.__name__}"
        app.add_route(guarded(handler), path, methods=methods, name=name, stream=True)


def page_within(text: str) -> str:
    """Return the page to go to after signing in: one of ours, or the first where it is none."""
    return text if _PAGE.fullmatch(text) else FIRST_PAGE


async def _sign_in(request: Request, sessions: Sessions, pace: Pace) -> HTTPResponse:
    form = await form_body.read(request, ("key", "next"))
    wanted, key = page_within(form["next"]), form["key"].strip()
    if not key:
        return _refused(request, wanted, _NO_KEY)
    if not (security.is_local(request) or security.came_by_https(request)):
        return _refused(request, wanted, _IN_THE_CLEAR)
    try:
        await pace.attempt(request)
        token = await sessions.sign_in(request, key)
    except TooManyAttempts as error:
        message = _TOO_MANY.format(seconds=error.retry_after_s)
        response = _refused(request, wanted, message, 429)
        response.headers["Retry-After"] = str(error.retry_after_s)
        return response
    except Unauthenticated as error:
        log.warning("sign-in refused", client=pace.client(request))
        return _refused(request, wanted, str(error))
    except (DatabaseUnavailable, LimiterError) as error:
        await pace.take_back(request)
        message = _NO_REDIS if isinstance(error, LimiterError) else _NO_DATABASE
        return _refused(request, wanted, message, 503)
    await pace.take_back(request)
    response = redirect(wanted, status=303)
    session_cookie.put(request, response, token)
    return security.secured(response)


async def _is_known(sessions: Sessions, request: Request) -> bool:
    try:
        return await sessions.viewer(request) is not None
    except (DatabaseUnavailable, LimiterError):
        return False


def _page(
    request: Request,
    wanted: str,
    problem: str | None = None,
    *,
    notice: Notice | None = None,
    status: int = 200,
) -> HTTPResponse:
    """The form, its field empty. `problem` stands at the field."""
    in_the_clear = not (security.is_local(request) or security.came_by_https(request))
    context = SignIn(Frame("Sign in", notice=notice), wanted, problem, in_the_clear)
    return rendering.page("sign_in", context, status)


def _refused(request: Request, wanted: str, problem: str, status: int = 422) -> HTTPResponse:
    """The form again, and why nobody was signed in."""
    return _page(request, wanted, problem, status=status)

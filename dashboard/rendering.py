"""From a context to an answer. Everything that templates insert is escaped: names are data."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sanic import HTTPResponse, Request

from dashboard import charts, formatting, static_files
from dashboard.contexts import Frame
from dashboard.encoding import accepted, encoded
from dashboard.security import secured
from dashboard.sparkline import sparkline
from dashboard.standing_contexts import Error
from db.api_keys import Role

TEMPLATES = Path(__file__).parent / "templates"
HTML = "text/html; charset=utf-8"
RETRY_S = 5
"""After so long a page that cannot be shown now asks again by itself."""
WORTH_IT = 1_000
"""Answers of fewer bytes are not compressed."""
_QUALITY = 4
_UNAVAILABLE = 503
_ROLES = {
    Role.PLATFORM: "platform operator",
    Role.ADMIN: "administrator",
    Role.READ_ONLY: "read only",
    Role.AGENT: "agent",
}


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["static"] = lambda name: static_files.files().url(name)
    made.globals["sparkline"] = sparkline
    made.filters |= {
        "grouped": formatting.grouped,
        "known": formatting.known,
        "limit": formatting.limit,
        "iso": formatting.iso,
        "clock": formatting.clock,
        "day_and_time": formatting.day_and_time,
        "day": formatting.day,
        "overridden": formatting.overridden,
        "role": _ROLES.__getitem__,
        "embedded": charts.embedded,
    }
    return made


ENVIRONMENT = _environment()


def html(name: str, context: Any) -> str:
    """Fill in the template `<name>.html` with the fields of a context of contexts.py."""
    values = {field.name: getattr(context, field.name) for field in fields(context)}
    return ENVIRONMENT.get_template(f"{name}.html").render(values)


def page(name: str, context: Any, status: int = 200) -> HTTPResponse:
    """A page, with the headers that every page has."""
    return secured(HTTPResponse(html(name, context), status=status, content_type=HTML))


def error_page(status: int, title: str, message: str, request_id: str) -> HTTPResponse:
    """The page of what cannot be shown or done. One that may work later asks again by itself."""
    frame = Frame(title, refresh_s=RETRY_S if status == _UNAVAILABLE else None)
    response = page("error", Error(frame, status, message, request_id), status)
    response.headers["X-Request-Id"] = request_id
    if status == _UNAVAILABLE:
        response.headers["Retry-After"] = str(RETRY_S)
    return response


def compressed(request: Request, response: HTTPResponse) -> HTTPResponse:
    """Compress a page as the browser takes it: 100 kB in a millisecond or two.

    What the length of a compressed answer can betray (BREACH) is a secret beside text that another
    site chooses. Pages hold no secret: keys are shown by prefix, the session is in a cookie, and
    forms are guarded by where they come from, not by a token.
    """
    response.headers["Vary"] = "Accept-Encoding"
    if response.body is None or len(response.body) < WORTH_IT:
        return response
    encoding = accepted(request.headers.get("accept-encoding", ""))
    if encoding != "identity":
        response.body = encoded(response.body, encoding, quality=_QUALITY)
        response.headers["Content-Encoding"] = encoding
    return response

"""The cookie that holds a session's token, and nothing else.

Over https it is `__Host-ibex_session`: the prefix makes browsers refuse it where it is not Secure,
or was set for another path, or by another host of the same domain. On http://localhost, where a
Secure one may not be kept, it is `ibex_session`. It lasts until the browser is closed, at most.
"""

import re

from sanic import HTTPResponse, Request

from dashboard import security

SECURE_NAME = "__Host-ibex_session"
LOCAL_NAME = "ibex_session"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def token(request: Request) -> str | None:
    """The token that the browser sent. None: there is none, or what is there cannot be one."""
    name = _name(request)
    header: str
    for header in request.headers.getall("cookie", []):
        for pair in header.split(";"):
            found, _, value = pair.partition("=")
            if found.strip() == name and _TOKEN.fullmatch(value.strip()):
                return value.strip()
    return None


def put(request: Request, response: HTTPResponse, value: str) -> None:
    """Let the browser send this token from now on."""
    _set(request, response, value)


def clear(request: Request, response: HTTPResponse) -> None:
    """Let the browser forget the token."""
    _set(request, response, "", "; Max-Age=0")


def _set(request: Request, response: HTTPResponse, value: str, end: str = "") -> None:
    name = _name(request)
    secure = "; Secure" if name == SECURE_NAME else ""
    response.headers.add(
        "Set-Cookie", f"{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{end}"
    )


def _name(request: Request) -> str:
    return LOCAL_NAME if security.is_local(request) else SECURE_NAME

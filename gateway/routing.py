"""Where a request goes: the first segment of its path names the upstream, the rest is passed on.

The target is read as it came over the wire. What could leave the configured base on an upstream
that decodes or normalises paths (dot segments, backslashes) is refused, not mended.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from sanic import Request

from gateway.responses import BAD_REQUEST, NOT_CONFIGURED, NOT_FOUND, UPGRADE, Refusal
from gateway.settings import Upstream

_UNSAFE = re.compile(r"(?:^|/|%2f)(?:\.|%2e){1,2}(?:/|%2f|;|$)|\\|%5c|#", re.IGNORECASE)


class Route(NamedTuple):
    """An upstream, the path behind its name, and the same with the query, as it came."""

    upstream: Upstream
    path: str
    target: str

    def require_key(self) -> None:
        """Refuse where nobody has said how this upstream is paid: it is not asked at all."""
        if self.upstream.key is None:
            raise Refusal(
                NOT_CONFIGURED,
                f"The gateway has no key for the upstream '{self.upstream.name}': its operator "
                f"sets UPSTREAM_{self.upstream.name.upper()}_KEY.",
            )


def find_route(request: Request, upstreams: Mapping[str, Upstream]) -> Route:
    """Raise Refusal for an unknown upstream (404), an unsafe target or a WebSocket (400).

    Other upgrades are offers, which RFC 9110 section 7.8 lets a server pass over.
    """
    raw = request.raw_url.decode("ascii")
    name, slash, rest = raw.partition("?")[0][1:].partition("/")
    upstream = upstreams.get(name)
    if not raw.startswith("/") or not slash or upstream is None:
        raise Refusal(
            NOT_FOUND,
            "The first segment of the path names no upstream of this gateway; it has: "
            f"{', '.join(sorted(upstreams))}.",
        )
    if "websocket" in request.headers.getone("upgrade", "").lower():
        raise Refusal(UPGRADE, "WebSocket is not supported here: use the API over plain HTTP.")
    path = f"/{rest}"
    if _UNSAFE.search(path):
        raise Refusal(
            BAD_REQUEST, "The path has dot segments, a backslash or a fragment: send it without."
        )
    return Route(upstream, path, raw[len(name) + 1 :])

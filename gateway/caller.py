"""Whose request it is, and what of its head is passed on.

An agent's key is taken from `Authorization: Bearer`, `x-api-key` or `api-key`, in this order; the
first that has the form of an Ibex key counts. It goes no further, wherever else the request may
repeat it; the upstream gets its own key instead.
"""

from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from sanic import Request

from db.api_keys import Role, digest, mentions_key, well_formed
from gateway.config import Caller, Snapshot
from gateway.metering import Prepared, narrowed
from gateway.responses import BAD_REQUEST, FORBIDDEN, NOT_ALLOWED, UNAUTHORIZED, Refusal
from gateway.settings import Upstream
from gateway.upstream import HOP_BY_HOP, RawHeaders

CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key"})
_HOP_BY_HOP = frozenset(name.decode() for name in HOP_BY_HOP)
_REPLACED = _HOP_BY_HOP | CREDENTIALS | {"host", "expect"}
_REPLACED_WHERE_READ = _REPLACED | {"content-length", "accept-encoding"}


def find_caller(request: Request, snapshot: Snapshot) -> Caller:
    """Look the key up in memory. Raise Refusal: 401, 403 for an operator's key, 405, 400."""
    for key in _candidates(request):
        caller = snapshot.callers.get(digest(key)) if key.isascii() else None
        if caller is not None:  # so it is well formed
            if mentions_key(unquote_to_bytes(request.raw_url)):
                raise Refusal(
                    BAD_REQUEST, "An Ibex key does not belong into the URL: use a header."
                )
            return caller
        role = well_formed(key)
        if role is None:
            continue
        if role is not Role.AGENT:
            raise Refusal(FORBIDDEN, "This is an operator's key; traffic needs an agent's key.")
        break
    if request.method == "OPTIONS":
        raise Refusal(
            NOT_ALLOWED,
            "Cross-origin requests are not offered.",
            ("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        )
    raise Refusal(
        UNAUTHORIZED,
        "No valid Ibex key: send an agent's key (ibex_agt_...) as 'Authorization: Bearer' or "
        "'x-api-key'.",
        ("WWW-Authenticate", 'Bearer realm="ibex"'),
    )


def _candidates(request: Request) -> Iterator[str]:
    for value in request.headers.getall("authorization", ()):
        scheme, _, key = value.partition(" ")
        if scheme.lower() == "bearer":
            yield key.strip()
    for name in ("x-api-key", "api-key"):
        for value in request.headers.getall(name, ()):
            yield value.strip()


def forwarded_headers(
    request: Request, upstream: Upstream, prepared: Prepared | None
) -> RawHeaders:
    """The request's headers as the upstream gets them: end to end, without any Ibex key.

    Where the body was read here, its length is stated anew, and only encodings are asked for in
    which the usage can be read; where events have to be taken out of the stream, none.
    """
    replaced = _REPLACED if prepared is None else _REPLACED_WHERE_READ
    if "connection" in request.headers:
        replaced = replaced | _named_by_connection(request)
    headers = []
    for name, text in request.headers.items():  # names are in lower case
        if name not in replaced:
            value = text.rstrip(" \t").encode(errors="surrogateescape")
            if not mentions_key(_unescaped(value)):
                headers.append((name.encode(), value))
    if prepared is not None:
        headers.append((b"accept-encoding", _accepted(request, prepared)))
    if upstream.key:
        if upstream.dialect == "anthropic":
            headers.append((b"x-api-key", upstream.key.encode()))
        else:
            headers.append((b"authorization", b"Bearer " + upstream.key.encode()))
    return headers


def _named_by_connection(request: Request) -> set[str]:
    fields = request.headers.getall("connection")
    return {token.strip().lower() for value in fields for token in value.split(",")}


def _unescaped(value: bytes) -> bytes:
    """Cookies and URLs in a field may have the key's signs as escapes."""
    return unquote_to_bytes(value) if b"%" in value else value


def _accepted(request: Request, prepared: Prepared) -> bytes:
    offered = ", ".join(request.headers.getall("accept-encoding", ()))
    return b"identity" if prepared.injected else narrowed(offered).encode()

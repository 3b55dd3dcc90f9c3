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
from gateway.upstream import RawHeaders, end_to_end

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})
_REPLACED = CREDENTIALS | {b"host", b"expect"}


def find_caller(request: Request, snapshot: Snapshot) -> Caller:
    """Look the key up in memory. Raise Refusal: 401, 403 for an operator's key, 405, 400."""
    for key in _candidates(request):
        role = well_formed(key)
        if role is None:
            continue
        if role is not Role.AGENT:
            raise Refusal(FORBIDDEN, "This is an operator's key; traffic needs an agent's key.")
        caller = snapshot.callers.get(digest(key))
        if caller is None:
            break
        if mentions_key(unquote_to_bytes(request.raw_url)):
            raise Refusal(BAD_REQUEST, "An Ibex key does not belong into the URL: use a header.")
        return caller
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
    received = [
        (name.encode(), value.rstrip(" \t").encode(errors="surrogateescape"))
        for name, value in request.headers.items()
    ]
    headers = [
        (name, value)
        for name, value in end_to_end(received)
        if name not in _REPLACED and not mentions_key(_unescaped(value))
    ]
    if prepared is not None:
        headers = [
            header for header in headers if header[0] not in (b"content-length", b"accept-encoding")
        ]
        headers.append((b"accept-encoding", _accepted(request, prepared)))
    if upstream.key:
        if upstream.dialect == "anthropic":
            headers.append((b"x-api-key", upstream.key.encode()))
        else:
            headers.append((b"authorization", b"Bearer " + upstream.key.encode()))
    return headers


def _unescaped(value: bytes) -> bytes:
    """Cookies and URLs in a field may have the key's signs as escapes."""
    return unquote_to_bytes(value) if b"%" in value else value


def _accepted(request: Request, prepared: Prepared) -> bytes:
    offered = ", ".join(request.headers.getall("accept-encoding", ()))
    return b"identity" if prepared.injected else narrowed(offered).encode()

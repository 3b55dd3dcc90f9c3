"""What keeps pages from being used by other sites: headers on each, and where a form comes from."""

from urllib.parse import SplitResult, urlsplit

from sanic import HTTPResponse, Request

from graphql_api.errors import Forbidden

HEADERS = {
    # Plotly adds one empty style element, whose hash is the one that is named here.
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; "
        "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; "
        "img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    # `no-referrer` would make browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class CrossSite(Forbidden):
    """A form that was not sent from our own pages, or by no browser."""


def secured(response: HTTPResponse) -> HTTPResponse:
    """Add the headers that every page has, and the answers to its forms and its script."""
    response.headers.update(HEADERS)
    return response


def keep_https(request: Request, response: HTTPResponse) -> None:
    """Where a page came by https, tell the browser never to ask for it in the clear."""
    if is_https(request):
        response.headers.update(HTTPS_ONLY)


def is_https(request: Request) -> bool:
    """Whether the browser's connection is encrypted, here or by a proxy that says so."""
    proxied = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return "https" in (request.scheme, proxied)


def is_local(request: Request) -> bool:
    """Whether it is plain http to this machine, which browsers trust as they trust https."""
    host = _split(f"//{request.headers.get('host', '')}").hostname
    return host in LOCAL and not is_https(request)


def came_by_https(request: Request) -> bool:
    """The same as `is_https` for a form: its Origin tells it where no proxy does."""
    return is_https(request) or request.headers.get("origin", "").startswith("https://")


def require_same_origin(request: Request) -> None:
    """Raise CrossSite unless the browser says that one of our own pages, or its user, sent this.

    Browsers send Sec-Fetch-Site (Fetch Metadata) over https and to localhost; over plain http, and
    where they are older, there is the Origin only.
    """
    if request.method in _READING:
        return
    if sites := request.headers.getall("sec-fetch-site", []):
        if not {site.strip().lower() for site in sites} <= {"same-origin", "none"}:
            raise CrossSite("Your browser says that this form was sent from another site.")
        return
    origins = request.headers.getall("origin", [])
    if not origins:
        raise CrossSite(
            "A form is taken from a browser only, which says where it was sent from "
            "(Sec-Fetch-Site or Origin). Scripts use the API: /openapi.json describes it."
        )
    if not all(_is_own(origin, request) for origin in origins):
        raise CrossSite(
            "The form's Origin is not the host that was asked. If a proxy stands in front of Ibex, "
            "let it pass on the Host header."
        )


def _is_own(origin: str, request: Request) -> bool:
    parts = _split(origin)
    hosts = request.headers.getall("host", [])
    if parts.scheme not in _DEFAULT_PORTS or len(hosts) != 1:
        return False
    if is_https(request) and parts.scheme != "https":
        return False
    asked = _split(f"{parts.scheme}://{hosts[0]}")
    return parts.hostname is not None and _authority(parts) == _authority(asked)


def _authority(parts: SplitResult) -> tuple[str | None, int]:
    return parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def _split(url: str) -> SplitResult:
    """Split a URL; what is none has no host."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return SplitResult("", "", "", "", "")
    return parts

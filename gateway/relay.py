"""An upstream's answer as the client gets it: its status, its headers, and what we add."""

from collections.abc import Iterator

import httpx
from sanic.compat import Header as SanicHeaders
from sanic.response import BaseHTTPResponse

from gateway.rate_headers import is_family_header, rate_headers
from gateway.responses import REQUEST_ID_HEADERS, new_request_id
from gateway.settings import Dialect
from gateway.upstream import RawHeaders, end_to_end
from lua.decision import Decision

_NO_BODY = frozenset({204, 304})


class Relayed(BaseHTTPResponse):
    """A response whose head is sent byte for byte; only the framing is the server's."""

    def __init__(self, status: int, headers: RawHeaders) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.status = status
        self.body = None
        self.content_type = None
        self.headers = SanicHeaders()
        self._raw = headers
        if status not in _NO_BODY:
            self._leave_length_to_the_server()

    def _leave_length_to_the_server(self) -> None:
        for header in self._raw:
            if header[0].lower() == b"content-length":
                self.headers["content-length"] = header[1].decode("ascii")
                self._raw.remove(header)
                return

    @property
    def is_stream(self) -> bool:
        """A body of unknown length follows."""
        return self.status not in _NO_BODY and "content-length" not in self.headers

    @property
    def processed_headers(self) -> Iterator[tuple[bytes, bytes]]:
        """The head, as the server asks for it."""
        yield from self._raw
        for name, value in self.headers.items():
            yield name.encode("ascii"), str(value).encode("ascii")


def relayed_headers(
    answer: httpx.Response, decision: Decision, dialect: Dialect, *, keep_length: bool
) -> RawHeaders:
    """The upstream's headers end to end, then ours; a field that the upstream has sent stays its.

    Providers state their own limits in their own fields: ours are added only where they do not.
    """
    headers = end_to_end(answer.headers.raw)
    if not keep_length or answer.status_code == 204:  # noqa: PLR2004 - No Content has no length
        headers = [header for header in headers if header[0].lower() != b"content-length"]
    names = {name.lower().decode("latin-1") for name, _ in headers}
    has_family = any(is_family_header(name, dialect) for name in names)
    ours = [
        (name, value)
        for name, value in rate_headers(decision, dialect)
        if not (has_family and is_family_header(name, dialect))
    ]
    if decision.is_open:
        ours.append(("Ibex-Limiter", "open"))
    if REQUEST_ID_HEADERS[dialect] not in names:
        ours.append((REQUEST_ID_HEADERS[dialect], new_request_id()))
    return headers + [(name.encode("ascii"), value.encode("ascii")) for name, value in ours]

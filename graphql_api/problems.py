"""What a REST caller is told when it cannot have what it asked for: problems as in RFC 9457.

    {"type": "urn:ibex:problem:not-found", "title": "Not found", "status": 404,
     "detail": "there is no organization 8db8...", "request_id": "req_5f0c..."}

An input that cannot be used also has `errors`: [{"field", "message"}]. A problem never holds a
stack trace, an address or a value that was sent, but for an id that was asked for.
"""

import secrets
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import structlog
from msgspec import UNSET, UnsetType
from sanic import HTTPResponse
from sanic.exceptions import (
    MethodNotAllowed,
    PayloadTooLarge,
    RequestTimeout,
    SanicException,
    ServiceUnavailable,
)
from sanic.exceptions import NotFound as NoRoute

from graphql_api.errors import (
    BadInput,
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    LimiterError,
    NotFound,
    Unauthenticated,
)

CONTENT_TYPE = "application/problem+json"
SERVER_FAULT = 500
"""The lowest status that tells of a fault of ours."""

log = structlog.get_logger("ibex.rest")


class Kind(NamedTuple):
    """One kind of problem: its status, its name in the type's URN, its title."""

    status: int
    name: str
    title: str

    @property
    def type(self) -> str:
        """The URI by which programs tell the kinds apart."""
        return f"urn:ibex:problem:{self.name}"


BAD_INPUT = Kind(400, "bad-input", "Bad input")
UNAUTHENTICATED = Kind(401, "unauthenticated", "An operator's key is needed")
FORBIDDEN = Kind(403, "forbidden", "Not allowed with this key")
NOT_FOUND = Kind(404, "not-found", "Not found")
NOT_OFFERED = Kind(405, "method-not-allowed", "Method not allowed")
TOO_SLOW = Kind(408, "request-timeout", "The request took too long to arrive")
CONFLICT = Kind(412, "precondition-failed", "Not the version that was expected")
TOO_LARGE = Kind(413, "too-large", "The body is too large")
BAD_TYPE = Kind(415, "unsupported-media-type", "Unsupported media type")
LONG_HEAD = Kind(431, "head-too-large", "The request's head is too large")
INTERNAL = Kind(500, "internal", "Internal error")
UNAVAILABLE = Kind(503, "unavailable", "Not available now")


_KNOWN: tuple[tuple[type[Exception], Kind, str], ...] = (
    (BadInput, BAD_INPUT, ""),
    (Unauthenticated, UNAUTHENTICATED, ""),
    (Forbidden, FORBIDDEN, ""),
    (NotFound, NOT_FOUND, ""),
    (Conflict, CONFLICT, ""),
    (DatabaseUnavailable, UNAVAILABLE, "The database does not answer: nothing was changed."),
    (LimiterError, UNAVAILABLE, "The live numbers cannot be read now."),
    (MethodNotAllowed, NOT_OFFERED, "This method is not offered here."),
    (NoRoute, NOT_FOUND, "There is nothing here; /openapi.json says what there is."),
    (PayloadTooLarge, LONG_HEAD, "The target and the headers together are too long."),
    (RequestTimeout, TOO_SLOW, "The request took too long to arrive."),
    (ServiceUnavailable, UNAVAILABLE, "No answer was ready in time."),
)
"""What is told of each error; without words of its own, what the error itself says.

Bodies are bounded as they are read, so what the server finds too large is a head.
"""


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one field, parameter or header (`body`: with the body as a whole)."""

    field: str
    message: str


class ProblemBody(msgspec.Struct, frozen=True):
    """The body of every answer that is not a success. `errors` is there for bad input only."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: tuple[FieldError, ...] | UnsetType = UNSET


class Problem(Exception):  # noqa: N818 - not an error of ours: an answer
    """The request is answered with a problem. `detail` is for the caller."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        errors: tuple[FieldError, ...] | UnsetType = UNSET,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = headers or {}
        self.errors = errors


def new_request_id() -> str:
    """An id for one request, such as `req_5f0c...`, by which it is found in the log."""
    return f"req_{secrets.token_hex(12)}"


def answer(error: Exception, request_id: str) -> HTTPResponse:
    """The answer to a request that ended in an exception. A fault of ours is logged."""
    problem = error if isinstance(error, Problem) else _problem(error)
    if problem.kind is INTERNAL:
        log.error("internal error", exc_info=error, request_id=request_id)
    elif problem.kind.status >= SERVER_FAULT:
        log.warning("management not available", reason=str(error), request_id=request_id)
    kind = problem.kind
    body = ProblemBody(
        kind.type, kind.title, kind.status, problem.detail, request_id, problem.errors
    )
    return HTTPResponse(
        msgspec.json.encode(body),
        status=kind.status,
        headers={**problem.headers, "Cache-Control": "no-store", "X-Request-Id": request_id},
        content_type=CONTENT_TYPE,
    )


def _problem(error: Exception) -> Problem:
    for of_type, kind, detail in _KNOWN:
        if isinstance(error, of_type):
            return Problem(
                kind, detail or str(error), headers=_headers(error), errors=_errors(error)
            )
    if isinstance(error, SanicException) and error.status_code < SERVER_FAULT:
        return Problem(BAD_INPUT, "The request cannot be read as HTTP/1.1.")
    return Problem(INTERNAL, "Ibex failed to handle this request; the failure is logged.")


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": 'Bearer realm="ibex"'}
    if isinstance(error, MethodNotAllowed):
        return {name: str(value) for name, value in error.headers.items()}
    return {}


def _errors(error: Exception) -> tuple[FieldError, ...] | UnsetType:
    return (FieldError(error.field, error.message),) if isinstance(error, BadInput) else UNSET

# ruff: noqa: N818 - the names say what happened
"""What a GraphQL caller is told of an error: a message, `extensions.code` and the request's id.

    {"message": "there is no organization 8db8...", "path": ["organization"],
     "extensions": {"code": "NOT_FOUND", "requestId": "req_5f0c..."}}

For bad input, `extensions.field` names what cannot be used. What is neither an error of the use
cases nor of GraphQL itself is a fault of ours: it is logged, and told without its text.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import structlog
from graphql import GraphQLError
from strawberry.utils.str_converters import to_camel_case

from graphql_api.errors import (
    BadInput,
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    LimiterError,
    NotFound,
    Unauthenticated,
)

MAX_MESSAGE = 500
"""Characters of a message: it may quote what was sent."""

_AT_VARIABLE = re.compile(r"Variable '\$(\w+)' has invalid value(?: at [\w.\[\]]*?(\w+))?:")
_BEFORE_VALUE = re.compile(r"(\w+)\s*:\s*\Z")
_NAME_REACH = 200
"""Characters in front of a value in which its name is looked for."""

log = structlog.get_logger("ibex.graphql")


class Code(StrEnum):
    """The kinds of error that programs tell apart."""

    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    BAD_USER_INPUT = "BAD_USER_INPUT"
    CONFLICT = "CONFLICT"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    INTERNAL_SERVER_ERROR = "INTERNAL_SERVER_ERROR"


class LiveNumbersUnknown(Exception):
    """A change was made, but its live numbers could not be read."""


_INTERNAL = "Ibex failed to handle this request; the failure is logged."
_KINDS: tuple[tuple[type[Exception], Code, str | None], ...] = (
    # None: the error's own message, which is for the caller.
    (Unauthenticated, Code.UNAUTHENTICATED, None),
    (Forbidden, Code.FORBIDDEN, None),
    (NotFound, Code.NOT_FOUND, None),
    (Conflict, Code.CONFLICT, None),
    (
        DatabaseUnavailable,
        Code.SERVICE_UNAVAILABLE,
        "The database does not answer: nothing was changed.",
    ),
    (LimiterError, Code.SERVICE_UNAVAILABLE, "The live numbers cannot be read now."),
    (
        LiveNumbersUnknown,
        Code.SERVICE_UNAVAILABLE,
        "The change was made, and is in force with the next poll at the latest.",
    ),
    (RecursionError, Code.BAD_USER_INPUT, "The document is nested too deeply."),
)


def described(error: GraphQLError, request_id: str) -> dict[str, Any]:
    """The error as it is answered. A fault of ours is logged with that request's id."""
    cause = _cause(error)
    if cause is None:
        message, extensions = error.message, {"code": Code.BAD_USER_INPUT, **_field_of(error)}
    else:
        message, extensions = told(cause, request_id)
    place = {key: value for key, value in error.formatted.items() if key in ("locations", "path")}
    return {
        "message": message[:MAX_MESSAGE],
        **place,
        "extensions": {**extensions, "requestId": request_id},
    }


def told(error: Exception, request_id: str) -> tuple[str, dict[str, str]]:
    """The message and the extensions for an error of a use case, or for a fault of ours."""
    if isinstance(error, BadInput):
        field = to_camel_case(error.field)
        return f"{field}: {error.message}", {"code": Code.BAD_USER_INPUT, "field": field}
    for of_type, code, message in _KINDS:
        if isinstance(error, of_type):
            if code is Code.SERVICE_UNAVAILABLE:
                log.warning("management not available", reason=str(error), request_id=request_id)
            return message or str(error), {"code": code}
    log.error("internal error", exc_info=error, request_id=request_id)
    return _INTERNAL, {"code": Code.INTERNAL_SERVER_ERROR}


def _cause(error: GraphQLError) -> Exception | None:
    """What a field raised; None where GraphQL itself refuses the document or a value."""
    if error.nodes and error.path is None:
        return None  # found in the document, before anything was executed
    cause: Exception | None = error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    return cause


def _field_of(error: GraphQLError) -> Mapping[str, str]:
    """The argument, input field or variable that a refused value was meant for, if it was one."""
    if found := _AT_VARIABLE.match(error.message):
        return {"field": found[2] or found[1]}
    if error.source and error.positions:
        start = min(error.positions)
        before = error.source.body[max(0, start - _NAME_REACH) : start]
        if found := _BEFORE_VALUE.search(before):
            return {"field": found[1]}
    return {}

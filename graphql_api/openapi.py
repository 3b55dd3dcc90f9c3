"""The OpenAPI 3.1 document of the REST API, made of its operations and of the types they speak."""

import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import msgspec

from db.limits import MAX_LIMIT
from graphql_api import problems
from graphql_api.inputs import LONGEST_PAGE
from graphql_api.problems import Kind, ProblemBody
from graphql_api.rest_bodies import UUID_PATTERN
from graphql_api.rest_examples import EXAMPLES
from graphql_api.rest_operation import JSON, PAGING, TAKES_EFFECT, Operation

Json = dict[str, Any]

_TEMPLATE = "#/components/schemas/{name}"
_ID_IN_PATH = re.compile(r"\{(\w+)\}")
_PROBLEMS = {
    "BadInput": problems.BAD_INPUT,
    "Unauthenticated": problems.UNAUTHENTICATED,
    "Forbidden": problems.FORBIDDEN,
    "NotFound": problems.NOT_FOUND,
    "MethodNotAllowed": problems.NOT_OFFERED,
    "RequestTimeout": problems.TOO_SLOW,
    "PreconditionFailed": problems.CONFLICT,
    "TooLarge": problems.TOO_LARGE,
    "UnsupportedMediaType": problems.BAD_TYPE,
    "HeadTooLarge": problems.LONG_HEAD,
    "Internal": problems.INTERNAL,
    "Unavailable": problems.UNAVAILABLE,
}
_ALWAYS = (
    "BadInput",
    "Unauthenticated",
    "RequestTimeout",
    "TooLarge",
    "HeadTooLarge",
    "Internal",
    "Unavailable",
)
_PROBLEM_HEADERS = {
    problems.UNAUTHENTICATED: ("WWW-Authenticate", "How to authenticate."),
    problems.NOT_OFFERED: ("Allow", "The methods that the path takes."),
}
_DESCRIPTION = """\
Reads and changes rate limits, organizations, agents and keys while Ibex runs. A change is enforced
by every gateway within a second (`Ibex-Takes-Effect: now`), or with its next poll where it could
not be told (`next-poll`).

Counts and limits are whole numbers up to 2^53 - 1. Times are in UTC. What belongs to another
organization is answered as what does not exist. A path answers 405 to methods that it does not
take. Every answer has an `X-Request-Id`.
"""


def document(operations: Iterable[Operation]) -> Json:
    """The whole document, ready to be encoded."""
    declared = list(operations)
    shapes = _shapes(declared)
    references, schemas = msgspec.json.schema_components(shapes, ref_template=_TEMPLATE)
    schema_of = dict(zip(shapes, references, strict=True))
    paths: dict[str, Json] = {}
    for operation in declared:
        found = paths.setdefault(operation.path, {})
        found[operation.method.lower()] = _operation(operation, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ibex management API",
            "version": version("ibex-gateway"),
            "description": _DESCRIPTION,
        },
        "servers": [{"url": "/"}],
        "security": [{"operatorKey": []}],
        "paths": paths,
        "components": {
            "schemas": _with_formats(schemas),
            "responses": {
                name: _problem(kind, schema_of[ProblemBody]) for name, kind in _PROBLEMS.items()
            },
            "headers": _headers(),
            "securitySchemes": {
                "operatorKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of a platform operator (`ibex_plt_...`), or of an "
                    "organization's admin (`ibex_adm_...`) or reader (`ibex_ro_...`).",
                }
            },
        },
    }


def _shapes(operations: list[Operation]) -> list[Any]:
    used: list[Any] = [ProblemBody]
    for operation in operations:
        used += [operation.answer, *([operation.body] if operation.body else [])]
    return list(dict.fromkeys(used))


def _operation(operation: Operation, schema_of: Mapping[Any, Json]) -> Json:
    written: Json = {
        "operationId": operation.handler.__name__,
        "summary": operation.summary,
        "description": f"Keys that may: {', '.join(operation.roles)}.",
        "parameters": _parameters(operation),
        "responses": {
            str(operation.status): _success(operation, schema_of),
            **{str(_PROBLEMS[name].status): _component("responses", name)
               for name in _problem_names(operation)},
        },
    }  # fmt: skip
    if operation.body is not None:
        content = _content(operation.body, schema_of)
        written["requestBody"] = {
            "required": True,
            "content": dict.fromkeys(operation.media_types, content),
        }
    return written


def _problem_names(operation: Operation) -> list[str]:
    """In the order of their statuses."""
    names = list(_ALWAYS)
    if operation.is_restricted:
        names.append("Forbidden")
    if "{" in operation.path:
        names.append("NotFound")
    if operation.body is not None:
        names.append("UnsupportedMediaType")
    if operation.is_conditional:
        names.append("PreconditionFailed")
    return sorted(names, key=lambda name: _PROBLEMS[name].status)


def _parameters(operation: Operation) -> list[Json]:
    parameters = [
        _parameter("path", name, "", {"type": "string", "format": "uuid", "pattern": UUID_PATTERN})
        for name in _ID_IN_PATH.findall(operation.path)
    ]
    if operation.cursor:
        first, after = PAGING
        cursor = {"type": "string", "pattern": operation.cursor}
        size = {
            "type": "integer",
            "format": "int64",
            "minimum": 1,
            "maximum": LONGEST_PAGE,
            "default": 50,
        }
        parameters += [
            _parameter("query", first, "How many are wanted.", size),
            _parameter("query", after, "The `next` of the page before.", cursor),
        ]
    parameters += [
        _parameter("query", each.name, each.description, each.schema)
        for each in operation.parameters
    ]
    if operation.is_conditional:
        words = "The `ETag` that the change is made for; anything else since then is a 412."
        parameters.append(_parameter("header", "If-Match", words, {"type": "string"}))
    return parameters


def _parameter(place: str, name: str, description: str, schema: Json) -> Json:
    parameter = {"in": place, "name": name, "required": place == "path", "schema": schema}
    return parameter | ({"description": description} if description else {})


def _success(operation: Operation, schema_of: Mapping[Any, Json]) -> Json:
    names = ["X-Request-Id"]
    if operation.is_versioned:
        names.append("ETag")
    if operation.is_published:
        names.append(TAKES_EFFECT)
    if operation.has_location:
        names.append("Location")
    return {
        "description": operation.summary + ".",
        "headers": {name: _component("headers", name) for name in names},
        "content": {JSON: _content(operation.answer, schema_of)},
    }


def _content(shape: Any, schema_of: Mapping[Any, Json]) -> Json:
    return {"schema": schema_of[shape], "example": msgspec.to_builtins(EXAMPLES[shape])}


def _component(section: str, name: str) -> Json:
    return {"$ref": f"#/components/{section}/{name}"}


def _problem(kind: Kind, schema: Json) -> Json:
    headers = {"X-Request-Id": _component("headers", "X-Request-Id")}
    if kind in _PROBLEM_HEADERS:
        name, words = _PROBLEM_HEADERS[kind]
        headers[name] = {"description": words, "schema": {"type": "string"}}
    return {
        "description": f"{kind.title} (`{kind.type}`).",
        "headers": headers,
        "content": {problems.CONTENT_TYPE: {"schema": schema}},
    }


def _headers() -> Json:
    described = {
        "X-Request-Id": "By what the request is found in the log.",
        "ETag": "The version of what is set; the live numbers move without it.",
        "Location": "Where what was created is read.",
    }
    headers: Json = {
        name: {"description": words, "schema": {"type": "string"}}
        for name, words in described.items()
    }
    headers[TAKES_EFFECT] = {
        "description": "When gateways act on the change.",
        "schema": {"enum": ["now", "next-poll"]},
    }
    return headers


def _with_formats(schema: Any) -> Any:
    """Every whole number here may pass 2^31, and generated clients have to know."""
    if isinstance(schema, list):
        return [_with_formats(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    formatted = {name: _with_formats(each) for name, each in schema.items()}
    if schema.get("type") == "integer":
        formatted.pop("anyOf", None)  # int or float, as it may be spelled: integer says it all
        formatted |= {"format": "int64", "maximum": schema.get("maximum", MAX_LIMIT)}
    return formatted

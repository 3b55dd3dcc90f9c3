"""The management API as REST, under /v1: the same use cases as GraphQL's, as resources.

A request is answered in this order: no such path 404, no such method 405, who asks 401, what was
sent 413, 415, 400, and then what the use case says.
"""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import NotFound as NoRoute

from graphql_api import problems, rest_directory, rest_limits
from graphql_api.auth import Authenticator
from graphql_api.management import Management
from graphql_api.openapi import document
from graphql_api.problems import NOT_OFFERED, Problem
from graphql_api.rest_call import Call, read_content, read_parameters
from graphql_api.rest_operation import JSON, Operation

OPERATIONS = (*rest_limits.OPERATIONS, *rest_directory.OPERATIONS)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REQUEST_ID = "X-Request-Id"

App = Sanic[Any, Any]
Route = Callable[..., Coroutine[Any, Any, HTTPResponse]]


def register(
    app: App,
    management_of: Callable[[Request], Management],
    authenticator_of: Callable[[Request], Authenticator],
) -> None:
    """Mount everything under /v1, and /openapi.json, for which no key is needed."""
    paths: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in OPERATIONS:
        paths[operation.path][operation.method] = operation

    def route(operations: Mapping[str, Operation]) -> Route:
        async def handle(request: Request, **ids: str) -> HTTPResponse:
            operation = _chosen(request, operations)
            viewer = await authenticator_of(request).viewer(request.headers)
            request.ctx.viewer = viewer
            content = await read_content(request, operation)
            parameters = read_parameters(request, operation)
            return await operation.handler(
                Call(request, ids, parameters, content, viewer, management_of(request))
            )

        return _guarded(handle)

    for path, operations in paths.items():
        _mount(app, path, route(operations))
    _mount(app, "/v1/{path:path}", _guarded(_nothing))
    _mount(app, "/openapi.json", _guarded(_document_route()))


def _mount(app: App, path: str, handler: Route) -> None:
    """For every method, so that refusing one is ours too; streamed, to bound the body ourselves."""
    pattern = path.replace("{", "<").replace("}", ">")
    name = path.strip("/").translate(str.maketrans("/{}:.-", "______"))
    app.add_route(handler, pattern, methods=METHODS, name=f"rest_{name}", stream=True)


def _guarded(handle: Route) -> Route:
    """Whatever goes wrong is answered as a problem, and every answer has a request id."""

    async def guarded(request: Request, **ids: str) -> HTTPResponse:
        request_id = problems.new_request_id()
        try:
            response = await handle(request, **ids)
        except Exception as error:  # noqa: BLE001 - logged there, and nothing leaks to the caller
            return problems.answer(error, request_id)
        response.headers[REQUEST_ID] = request_id
        return response

    return guarded


def _chosen(request: Request, operations: Mapping[str, Operation]) -> Operation:
    method = "GET" if request.method == "HEAD" else request.method
    if method in operations:
        return operations[method]
    offered = [*operations, "HEAD"] if "GET" in operations else [*operations]
    allow = ", ".join(sorted(offered))
    raise Problem(NOT_OFFERED, f"This path takes {allow}.", headers={"Allow": allow})


async def _nothing(_request: Request, **_path: str) -> HTTPResponse:
    raise NoRoute


def _document_route() -> Route:
    content = msgspec.json.encode(document(OPERATIONS))

    async def openapi(request: Request) -> HTTPResponse:
        if request.method not in {"GET", "HEAD"}:
            raise Problem(NOT_OFFERED, "This path takes GET.", headers={"Allow": "GET, HEAD"})
        return HTTPResponse(content, content_type=JSON)

    return openapi

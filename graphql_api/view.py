"""GraphQL over HTTP at /graphql, on Sanic.

A request is answered in this order: another method than GET or POST 405, a browser gets the
playground, who asks 401, what was sent 413, 415, 400, and then what the schema says. Everything
but the playground's page and its files takes an operator's key, introspection too.

A document that is executed is answered with 200, its errors beside its data. One that is not (it
does not parse, does not fit the schema, or has variables that do not) is answered with 400 where
the caller takes application/graphql-response+json, and with 200 where it takes application/json,
as GraphQL over HTTP wants it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog
from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import NotFound as NoRoute
from sanic.response import file, html
from strawberry.exceptions import MissingQueryError
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from graphql_api import graphql_request
from graphql_api.auth import Authenticator
from graphql_api.context import Context
from graphql_api.errors import DatabaseUnavailable, Unauthenticated
from graphql_api.graphql_errors import Code, described, told
from graphql_api.graphql_request import GRAPHQL_JSON, GraphQLRequest, NotTaken, media_type
from graphql_api.management import Management
from graphql_api.playground import CDN, MIME_TYPES, ROUTE, STARTER, Playground
from graphql_api.problems import new_request_id
from graphql_api.schema import schema

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
FOR_EVER = "public, max-age=31536000, immutable"

App = Sanic[Any, Any]

log = structlog.get_logger("ibex.graphql")


def register(
    app: App,
    management_of: Callable[[Request], Management],
    authenticator_of: Callable[[Request], Authenticator],
) -> None:
    """Mount /graphql and the playground's files. Bodies are streamed, to bound them ourselves."""
    playground = Playground()
    if not playground.is_local:
        log.warning("the GraphQL playground is not installed", loaded_from=CDN)

    async def graphql(request: Request) -> HTTPResponse:
        if graphql_request.wants_playground(request):
            return _page(playground)
        request_id = new_request_id()
        try:
            graphql_request.check_method(request)
            viewer = await authenticator_of(request).viewer(request.headers)
            request.ctx.viewer = viewer
            wanted = await graphql_request.read(request)
            request.ctx.operation_name = wanted.operation_name
            context = Context(management_of(request), viewer, wanted.operation_name)
            result = await _execute(wanted, context, request.method)
            return _answered(request, result, request_id)
        except Exception as error:  # noqa: BLE001 - a failure too is answered in GraphQL's shape
            return _refused(request, error, request_id)

    async def asset(_request: Request, name: str) -> HTTPResponse:
        return await _asset(playground, name)

    app.add_route(graphql, "/graphql", methods=METHODS, stream=True, name="graphql")
    app.add_route(asset, f"{ROUTE}/<name>", methods=["GET"], name="graphql_asset")


def _page(playground: Playground) -> HTTPResponse:
    headers = {
        "Content-Security-Policy": playground.policy,
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept",
        "X-Content-Type-Options": "nosniff",
    }
    return html(playground.html, headers=headers)


async def _asset(playground: Playground, name: str) -> HTTPResponse:
    path = playground.files.get(name)
    if path is None:
        raise NoRoute
    headers = {"X-Content-Type-Options": "nosniff"}
    if name != STARTER:  # the others have their version in their name
        headers["Cache-Control"] = FOR_EVER
    return await file(path, mime_type=MIME_TYPES[path.suffix], headers=headers)


async def _execute(wanted: GraphQLRequest, context: Context, method: str) -> ExecutionResult:
    by_method = {OperationType.QUERY}
    if method == "POST":
        by_method.add(OperationType.MUTATION)
    try:
        return await schema.execute(
            wanted.query,
            variable_values=wanted.variables,
            context_value=context,
            operation_name=wanted.operation_name,
            allowed_operation_types=by_method,
        )
    except MissingQueryError as error:
        raise NotTaken(400, "query: must be a GraphQL document") from error
    except CannotGetOperationTypeError as error:
        raise NotTaken(400, "operationName: must name one operation of the document") from error
    except InvalidOperationTypeError as error:
        if error.operation_type is OperationType.MUTATION:
            raise NotTaken(405, "Mutations are sent by POST.", {"Allow": "POST"}) from error
        raise NotTaken(400, "query: subscriptions are not offered") from error


def _answered(request: Request, result: ExecutionResult, request_id: str) -> HTTPResponse:
    errors = [described(error, request_id) for error in result.errors or ()]
    was_executed = result.data is not None or any("path" in error for error in errors)
    if was_executed:
        body = {"data": result.data, **({"errors": errors} if errors else {})}
        return _json(request, 200, body, request_id)
    if any(error["extensions"]["code"] is Code.INTERNAL_SERVER_ERROR for error in errors):
        return _json(request, 500, {"errors": errors}, request_id)
    status = 400 if media_type(request) == GRAPHQL_JSON else 200
    return _json(request, status, {"errors": errors}, request_id)


def _refused(request: Request, error: Exception, request_id: str) -> HTTPResponse:
    """The answer where nothing was executed, with the status that says why."""
    headers: Mapping[str, str] = {}
    if isinstance(error, NotTaken):
        status, headers = error.status, error.headers
        message, extensions = str(error), {"code": str(Code.BAD_USER_INPUT)}
    else:
        message, extensions = told(error, request_id)
        status = 500
        if isinstance(error, Unauthenticated):
            status, headers = 401, {"WWW-Authenticate": 'Bearer realm="ibex"'}
        elif isinstance(error, DatabaseUnavailable):
            status = 503
    errors = [{"message": message, "extensions": {**extensions, "requestId": request_id}}]
    return _json(request, status, {"errors": errors}, request_id, headers)


def _json(
    request: Request,
    status: int,
    body: object,
    request_id: str,
    headers: Mapping[str, str] | None = None,
) -> HTTPResponse:
    """Nothing is to be cached: it is an operator's, and a new key's secret may be in it."""
    return HTTPResponse(
        msgspec.json.encode(body),
        status=status,
        headers={
            **(headers or {}),
            "Cache-Control": "no-store",
            "Vary": "Accept",
            "X-Content-Type-Options": "nosniff",
            "X-Request-Id": request_id,
        },
        content_type=f"{media_type(request)}; charset=utf-8",
    )

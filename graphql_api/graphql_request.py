"""One GraphQL request as it came over HTTP: which answer it takes, and what it asks for.

As in GraphQL over HTTP: a POST sends JSON, a GET sends parameters and may only query.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from sanic import Request
from sanic.exceptions import BadRequest, InvalidHeader
from sanic.headers import parse_content_header

JSON = "application/json"
GRAPHQL_JSON = "application/graphql-response+json"
HTML = "text/html"
MAX_BODY_BYTES = 1_000_000


class NotTaken(Exception):  # noqa: N818 - not an error of ours: an answer
    """The request is refused before anything is executed. The message is for the caller."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class GraphQLRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A document, and how it is to be executed."""

    query: str
    variables: dict[str, Any] | None = None
    operation_name: str | None = None
    extensions: dict[str, Any] | None = None


def media_type(request: Request) -> str:
    """The one of our media types that the caller prefers; plain JSON if it named none of them."""
    try:
        return request.accept.match(GRAPHQL_JSON, JSON, accept_wildcards=False).mime or JSON
    except InvalidHeader:
        return JSON


def wants_playground(request: Request) -> bool:
    """Whether a browser asks for the page: it names HTML, and sends no query."""
    if request.method != "GET" or "query" in request.args:
        return False
    try:
        wanted = request.accept.match(HTML, GRAPHQL_JSON, JSON, accept_wildcards=False).mime
    except InvalidHeader:
        return False
    return wanted == HTML


def check_method(request: Request) -> None:
    """Raise NotTaken for what is neither a GET nor a POST."""
    if request.method not in ("GET", "POST"):
        raise NotTaken(405, "GraphQL is offered by GET and POST.", {"Allow": "GET, POST"})


async def read(request: Request) -> GraphQLRequest:
    """What the request asks for. Raises NotTaken."""
    if request.method == "GET":
        return _from_parameters(request)
    _check_content_type(request)
    return _decoded(await _body(request))


def _from_parameters(request: Request) -> GraphQLRequest:
    given: dict[str, Any] = {}
    for name in GraphQLRequest.__struct_encode_fields__:
        value = request.args.get(name)
        if value is not None:
            given[name] = _json(name, value) if name in ("variables", "extensions") else value
    return _request(given)


def _check_content_type(request: Request) -> None:
    media, parameters = parse_content_header(request.headers.getone("content-type", ""))
    charset = parameters.get("charset", "utf-8")
    if media != JSON or str(charset).lower() not in ("utf-8", "utf8"):
        raise NotTaken(415, f"Send Content-Type: {JSON}, in UTF-8.", {"Accept-Post": JSON})


async def _body(request: Request) -> bytes:
    content = bytearray()
    try:
        while request.stream and (piece := await request.stream.read()):  # type: ignore[attr-defined]
            content += piece
            if len(content) > MAX_BODY_BYTES:
                raise NotTaken(413, f"The body is larger than {MAX_BODY_BYTES} bytes.")
    except BadRequest as error:
        raise NotTaken(400, "The body cannot be read as HTTP/1.1.") from error
    return bytes(content)


def _decoded(content: bytes) -> GraphQLRequest:
    return _request(_json("body", content))


def _json(name: str, text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise NotTaken(400, f"{name}: is nested too deeply") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise NotTaken(400, f"{name}: must be JSON in UTF-8") from error


def _request(given: object) -> GraphQLRequest:
    if isinstance(given, list):
        raise NotTaken(400, "body: must be one object; batches are not taken")
    try:
        wanted = msgspec.convert(given, GraphQLRequest)
    except msgspec.ValidationError as error:
        raise NotTaken(400, f"body: {error}") from error
    if not wanted.query.strip():
        raise NotTaken(400, "query: must be a GraphQL document")
    return wanted

"""One call of the REST API: what was sent with it, and what is answered.

Reading is strict: what is not known here, or is given twice, is refused and named, because a
misspelled field that is ignored looks like a change that was made.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

import msgspec
from sanic import HTTPResponse, Request

from db.limits import MAX_LIMIT
from graphql_api import inputs
from graphql_api.errors import BadInput
from graphql_api.management import Management
from graphql_api.model import Changed, Viewer
from graphql_api.problems import BAD_TYPE, TOO_LARGE, Problem
from graphql_api.rest_operation import JSON, PAGING, TAKES_EFFECT, Operation

T = TypeVar("T")

MAX_BODY_BYTES = 65_536

_WHOLE = re.compile(r"[0-9]{1,9}")
_VERSION_TAG = re.compile(r'("?)([1-9][0-9]{0,14})\1')
_NO_VERSION = MAX_LIMIT
"""A version that no organization reaches."""
_AT_FIELD = re.compile(r"(?P<what>.*) - at `\$\.(?P<field>[^`]*)`", re.DOTALL)
_NAMED_FIELD = re.compile(r"Object (?P<what>[a-z ]+) field `(?P<field>.*)`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A request by an operator. `ids` are those in its path, `parameters` those in its query."""

    request: Request
    ids: Mapping[str, str]
    parameters: Mapping[str, str]
    content: bytes
    viewer: Viewer
    management: Management

    @property
    def organization_id(self) -> str:
        return self.ids["organization_id"]

    @property
    def agent_id(self) -> str:
        return self.ids["agent_id"]

    def paging(self) -> dict[str, Any]:
        """Which page is wanted, as the use cases take it."""
        wanted: dict[str, Any] = dict(self.parameters)
        if "first" in wanted:
            text = wanted["first"]
            wanted["first"] = inputs.first(int(text) if _WHOLE.fullmatch(text) else text)
        return wanted

    def body(self, shape: type[T]) -> T:
        """The JSON that was sent, as this type."""
        try:
            return msgspec.json.decode(self.content, type=shape)
        except msgspec.ValidationError as error:
            raise _misfit(str(error), shape) from error
        except msgspec.DecodeError as error:
            raise BadInput("body", "must be JSON in UTF-8") from error

    def expected_version(self) -> int | None:
        """The version that If-Match asks for. None: whatever there is may be changed.

        What is no ETag of ours matches nothing, a weak one neither (RFC 9110, 13.1.1). Of several
        the newest counts. The quotes may be missing.
        """
        given = self.request.headers.getall("if-match", ["*"])
        tags = [tag.strip() for field in given for tag in field.split(",")]
        if tags == ["*"]:
            return None
        versions = [int(found[2]) for tag in tags if (found := _VERSION_TAG.fullmatch(tag))]
        return max(versions, default=_NO_VERSION)


def read_parameters(request: Request, operation: Operation) -> dict[str, str]:
    """The query: each parameter at most once, and none that the operation does not know."""
    known = [each.name for each in operation.parameters]
    known += PAGING if operation.cursor else ()
    given = request.get_args(keep_blank_values=True)
    for name, values in given.items():
        if name not in known:
            raise BadInput(name, "is no parameter of this route")
        if len(values) > 1:
            raise BadInput(name, "must be given once")
    return {name: values[0] for name, values in given.items()}


async def read_content(request: Request, operation: Operation) -> bytes:
    """The body, whole; of an operation that takes none it is read and left aside."""
    _check_type(request, operation)
    content = bytearray()
    while request.stream and (piece := await request.stream.read()):  # type: ignore[attr-defined]
        content += piece
        if len(content) > MAX_BODY_BYTES:
            raise Problem(TOO_LARGE, f"The body is larger than {MAX_BODY_BYTES} bytes.")
    return bytes(content)


def answered(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTTPResponse:
    """A success. Nothing is to be cached: it is an operator's, and most of it moves."""
    return HTTPResponse(
        msgspec.json.encode(body),
        status=status,
        headers={"Cache-Control": "no-store", **(headers or {})},
        content_type=JSON,
    )


def effect(changed: Changed[Any]) -> dict[str, str]:
    """The header that says when gateways act on a change."""
    return {TAKES_EFFECT: "now" if changed.published else "next-poll"}


def _check_type(request: Request, operation: Operation) -> None:
    if operation.body is None:
        return
    headers = request.headers
    given = headers.getone("content-type", "").partition(";")[0].strip().lower()
    if given not in operation.media_types:
        accepted = ", ".join(operation.media_types)
        name = "Accept-Patch" if operation.method == "PATCH" else "Accept"
        raise Problem(
            BAD_TYPE, f"Content-Type must be one of: {accepted}.", headers={name: accepted}
        )
    if headers.getone("content-encoding", "identity").lower() != "identity":
        raise Problem(
            BAD_TYPE,
            "The body must be sent without Content-Encoding.",
            headers={"Accept-Encoding": "identity"},
        )


def _misfit(text: str, shape: Any) -> BadInput:
    """Name the field that the decoder complains about, and say what would be accepted."""
    if named := _NAMED_FIELD.fullmatch(text):
        is_unknown = named["what"] == "contains unknown"
        return BadInput(named["field"], "is not known here" if is_unknown else "is missing")
    if at := _AT_FIELD.fullmatch(text):
        return BadInput(at["field"], f"must be {_rules(shape)[at['field']]}")
    return BadInput("body", "must be a JSON object")


def _rules(shape: Any) -> dict[str, str]:
    """For each field of a body: what is accepted, as its type documents it."""
    rules: dict[str, str] = {}
    structs = get_args(shape) or (shape,)
    for struct in structs:
        found = msgspec.inspect.type_info(struct)
        assert isinstance(found, msgspec.inspect.StructType)
        rules |= {field.name: _rule(field.type) for field in found.fields}
    if tag_field := structs[0].__struct_config__.tag_field:
        tags = ", ".join(str(struct.__struct_config__.tag) for struct in structs)
        rules[tag_field] = f"one of {tags}"
    return rules


def _rule(of: msgspec.inspect.Type) -> str:
    """The description on a type, or on the one member of a union that has one."""
    members = of.types if isinstance(of, msgspec.inspect.UnionType) else (of,)
    (found,) = (each for each in members if isinstance(each, msgspec.inspect.Metadata))
    return str((found.extra_json_schema or {})["description"])

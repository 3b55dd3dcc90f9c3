"""The document that clients are generated from."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from rest_server import Rest

from graphql_api.openapi import document
from graphql_api.rest import OPERATIONS

DOCUMENT = json.loads(msgspec.json.encode(document(OPERATIONS)))


def schemas(node: Any) -> Iterator[dict[str, Any]]:
    """Every object within, from the outside in."""
    if isinstance(node, dict):
        yield node
        for child in node.values():
            yield from schemas(child)
    elif isinstance(node, list):
        for child in node:
            yield from schemas(child)


def operations() -> Iterator[dict[str, Any]]:
    for path in DOCUMENT["paths"].values():
        yield from path.values()


async def test_document_is_served_to_everybody(rest: Rest) -> None:
    """It holds nothing secret, and tools fetch it without a key."""
    answer = await rest.call("GET", "/openapi.json", role=None)

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.body == DOCUMENT
    assert answer.body["openapi"] == "3.1.0"


def test_every_reference_leads_somewhere() -> None:
    """Nothing is named that is not there."""
    for node in schemas(DOCUMENT):
        if "$ref" in node:
            found: Any = DOCUMENT
            for step in node["$ref"].removeprefix("#/").split("/"):
                found = found[step]


def test_every_operation_can_be_told_apart() -> None:
    """Generated clients have one method for each."""
    ids = [operation["operationId"] for operation in operations()]

    assert len(set(ids)) == len(ids) == len(OPERATIONS) == 20


def test_whole_numbers_are_64_bits_wide() -> None:
    """A generated client would take 32 bits otherwise, and fail in a busy month."""
    numbers = [node for node in schemas(DOCUMENT) if node.get("type") == "integer"]

    assert len(numbers) > 10
    assert {node["format"] for node in numbers} == {"int64"}
    assert max(node["maximum"] for node in numbers) == 2**53 - 1


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.handler.__name__)
def test_every_problem_that_can_occur_is_documented(operation: Any) -> None:
    """Each status by the kind of operation, each with a problem's body."""
    told = DOCUMENT["paths"][operation.path][operation.method.lower()]["responses"]

    expected = {str(operation.status), "400", "401", "408", "413", "431", "500", "503"}
    if len(operation.roles) < 3:
        expected.add("403")
    if "{" in operation.path:
        expected.add("404")
    if operation.method in {"POST", "PATCH"}:
        expected.add("415")
    if operation.method == "PATCH":
        expected.add("412")
    assert set(told) == expected


def test_examples_fit_their_schemas() -> None:
    """What is shown is what is sent and taken."""
    shown = [node for node in schemas(DOCUMENT) if "schema" in node and "example" in node]

    assert len(shown) > 18
    for node in shown:
        schema = {**node["schema"], "components": DOCUMENT["components"]}
        jsonschema_rs.validator_for(schema).validate(node["example"])

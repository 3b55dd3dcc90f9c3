"""GraphQL over HTTP: what is taken, what is refused and how, and what is never told."""

from collections.abc import AsyncIterator

import pytest
from graphql_server import Caller, error_of, graphql_server
from operators import World

from db.api_keys import Role
from graphql_api.auth import Authenticator
from graphql_api.graphql_request import MAX_BODY_BYTES

JSON = {"Content-Type": "application/json"}
GRAPHQL_JSON = "application/graphql-response+json"
QUERY = "{ viewer { role } }"
MUTATION = 'mutation { createOrganization(name: "x") { id } }'


@pytest.fixture
async def platform(operated: World) -> AsyncIterator[Caller]:
    """An operator of the platform, who could do everything."""
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        yield server.caller(operated.platform_key)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "body"),
        (b"null", "body"),
        (b'"x"', "body"),
        (b"1", "body"),
        (b"[]", "batches"),
        (b'[{"query": "{ viewer { role } }"}]', "batches"),
        (b"{", "body"),
        (b"{}", "query"),
        (b'{"query": null}', "query"),
        (b'{"query": ""}', "query"),
        (b'{"query": " "}', "query"),
        (b'{"query": "# nothing"}', "query"),
        (b'{"query": 1}', "query"),
        (b'{"query": "\xff"}', "body"),
        (b'{"query": "\\ud800"}', "body"),
        ("{}".encode("utf-16"), "body"),
        (b"[" * 100_000, "body"),
        (b'{"query": "{ viewer { role } }", "variables": ' + b"9" * 5_000 + b"}", "body"),
        (b'{"query": "{ viewer { role } }", "variables": []}', "variables"),
        (b'{"query": "{ viewer { role } }", "variables": "{}"}', "variables"),
        (b'{"query": "{ viewer { role } }", "extensions": 1}', "extensions"),
        (b'{"query": "{ viewer { role } }", "operationName": 1}', "operationName"),
        (b'{"query": "{ viewer { role } }", "operationName": "no"}', "operationName"),
        (b'{"query": "query A { viewer { role } } query B { viewer { role } }"}', "operationName"),
        (b'{"query": "subscription { viewer { role } }"}', "subscriptions"),
    ],
)
async def test_a_body_that_cannot_be_used_is_400_and_named(
    platform: Caller, body: bytes, named: str
) -> None:
    """No odd body is a failure of ours, and each answer says what is wrong."""
    answer = await platform.send(content=body, headers={**JSON, "Accept": GRAPHQL_JSON})

    assert answer.status_code == 400, answer.text
    error = error_of(answer)
    assert error["extensions"]["code"] == "BAD_USER_INPUT"
    assert named in error["message"] or named == "query"


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/graphql",
        "application/json; charset=latin-1",
        "application/jsonp",
    ],
)
async def test_only_json_is_taken(
    platform: Caller, operated: World, content_type: str | None
) -> None:
    """What a page of another origin could send without asking is refused: 415, nothing done."""
    body = b'{"query": "mutation { createOrganization(name: \\"x\\") { id } }"}'
    answer = await platform.send(content=body, headers={"Content-Type": content_type})

    assert answer.status_code == 415
    assert answer.headers["accept-post"] == "application/json"
    assert error_of(answer)["extensions"]["code"] == "BAD_USER_INPUT"
    assert len(await operated.repository.organizations()) == 2


@pytest.mark.parametrize(
    "parameters",
    [
        {"query": MUTATION},
        {"query": f"query Q {QUERY} mutation M {MUTATION[8:]}", "operationName": "M"},
    ],
)
async def test_a_mutation_by_get_is_405(
    platform: Caller, operated: World, parameters: dict[str, str]
) -> None:
    """A GET changes nothing, also where operationName picks the mutation."""
    answer = await platform.send("GET", params=parameters)

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert error_of(answer)["message"] == "Mutations are sent by POST."
    assert len(await operated.repository.organizations()) == 2


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
async def test_other_methods_are_405(platform: Caller, method: str) -> None:
    """Every other method is told which there are, with and without a key."""
    for caller in (platform, platform.with_key(None)):
        answer = await caller.send(method)

        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, POST"


async def test_a_query_by_get_is_answered(platform: Caller) -> None:
    """With variables and operationName as parameters."""
    answer = await platform.send(
        "GET",
        params={
            "query": "query A { a: viewer { role } } query B($y: Boolean!) "
            "{ viewer { role @include(if: $y) keyName } }",
            "operationName": "B",
            "variables": '{"y": false}',
        },
    )

    assert answer.json() == {"data": {"viewer": {"keyName": "root"}}}


@pytest.mark.parametrize("variables", ["{", "[]", "1", '"{}"'])
async def test_parameters_that_cannot_be_used_are_400(platform: Caller, variables: str) -> None:
    """Broken JSON in a parameter is told, naming the parameter."""
    answer = await platform.send("GET", params={"query": QUERY, "variables": variables})

    assert answer.status_code == 400
    assert "variables" in error_of(answer)["message"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_body_is_413(platform: Caller, *, chunked: bool) -> None:
    """The bound holds with and without a length; a body just below it is read."""
    small = b'{"query": "{ viewer { role } }"}'.ljust(MAX_BODY_BYTES)
    large = small + b" "

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 100_000):
            yield large[start : start + 100_000]

    taken = await platform.send(content=small, headers=JSON)
    answer = await platform.send(content=pieces() if chunked else large, headers=JSON)

    assert taken.status_code == 200
    assert answer.status_code == 413
    assert "1000000 bytes" in error_of(answer)["message"]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("application/json", "application/json"),
        (GRAPHQL_JSON, GRAPHQL_JSON),
        (f"{GRAPHQL_JSON}, application/json;q=0.9", GRAPHQL_JSON),
        (f"{GRAPHQL_JSON};q=0.5, application/json", "application/json"),
        ("no media type", "application/json"),
    ],
)
async def test_the_answer_is_in_the_type_that_is_wanted(
    platform: Caller, accept: str | None, content_type: str
) -> None:
    """And is not stored anywhere on its way."""
    body = b'{"query": "{ viewer { role } }"}'
    answer = await platform.send(content=body, headers={**JSON, "Accept": accept})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == f"{content_type}; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "key",
    [None, "nonsense", "ibex_adm_" + "0" * 36, "revoked"],
)
async def test_who_asks_is_found_out_before_what(
    platform: Caller, operated: World, key: str | None
) -> None:
    """Without a key that counts now, even a broken body is 401, and introspection is too."""
    if key == "revoked":
        key = operated.ours.secrets[Role.ADMIN]
        await operated.management.revoke_key(operated.platform, operated.ours.key_ids[Role.ADMIN])
    caller = platform.with_key(key)
    posted = await caller.send(content=b"{", headers=JSON)
    read = await caller.send("GET", params={"query": "{ __schema { queryType { name } } }"})

    for answer in (posted, read):
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="ibex"'
        assert error_of(answer)["extensions"]["code"] == "UNAUTHENTICATED"

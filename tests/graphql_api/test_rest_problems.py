"""Who asks without a right to, for what is not there, or at a bad moment."""

from typing import Any

import asyncpg
import pytest
from rest_server import ORGANIZATION_LIMITS, ROLES, Rest, path_to
from structlog.testing import capture_logs

from db import api_keys
from db.api_keys import Role
from graphql_api import rest as rest_api
from graphql_api.management import Management

PROBLEM = {"type", "title", "status", "detail", "request_id"}


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer x", "Basic eDp5", "Bearer \xff", Role.ADMIN, Role.AGENT],
)
async def test_without_an_operators_key_there_is_nothing(
    rest: Rest, authorization: str | None
) -> None:
    """No key, one that was never issued, or none of ours: 401, whatever else is wrong."""
    if isinstance(authorization, Role):
        authorization = f"Bearer {api_keys.generate(authorization)}"
    headers = {} if authorization is None else {"Authorization": authorization}
    path = path_to(ORGANIZATION_LIMITS, rest.world.ours)

    for method in ("GET", "PATCH"):
        answer = await rest.call(method, path, b"{", role=None, headers=headers)

        assert answer.status == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="ibex"'
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(answer.body) == PROBLEM


async def test_agents_key_opens_no_operation(rest: Rest) -> None:
    """An agent's key that is live in the gateway is refused by each operation alike."""
    for operation in rest_api.OPERATIONS:
        path = path_to(operation.path, rest.world.ours)
        assert (await rest.call(operation.method, path, role="agent")).status == 401


async def test_revoked_key_is_refused_at_once(rest: Rest) -> None:
    """The next request of a revoked key is its first that fails."""
    key_id = rest.world.ours.key_ids[Role.READ_ONLY]
    assert (await rest.call("GET", "/v1/organizations", role="read_only")).status == 200

    assert (await rest.call("DELETE", f"/v1/keys/{key_id}")).status == 200

    assert (await rest.call("GET", "/v1/organizations", role="read_only")).status == 401


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/v1/organizations/x/y/z"])
@pytest.mark.parametrize("role", [None, "admin"])
async def test_unknown_path_is_not_found(rest: Rest, path: str, role: str | None) -> None:
    """For everybody, with a hint where to look."""
    answer = await rest.call("GET", path, role=role)

    assert (answer.status, answer.body["type"]) == (404, "urn:ibex:problem:not-found")
    assert "/openapi.json" in answer.body["detail"]


async def test_method_that_is_not_offered_names_those_that_are(rest: Rest) -> None:
    """Every path refuses every other method, OPTIONS among them, before a key is looked at."""
    paths = {operation.path for operation in rest_api.OPERATIONS}
    for path in (*paths, "/openapi.json"):
        offered = {each.method for each in rest_api.OPERATIONS if each.path == path} or {"GET"}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - offered:
            answer = await rest.call(method, path_to(path, rest.world.ours), b"{}", role=None)

            assert answer.status == 405
            allowed = set(answer.headers["allow"].split(", "))
            assert allowed - {"HEAD"} == offered
            assert ("HEAD" in allowed) == ("GET" in offered)


async def test_head_is_get_without_a_body(rest: Rest) -> None:
    """The ETag can be had for less."""
    path = path_to(ORGANIZATION_LIMITS, rest.world.ours)
    get, head = await rest.call("GET", path), await rest.call("HEAD", path)

    assert (head.status, head.body) == (200, None)
    assert head.headers["etag"] == get.headers["etag"]


async def test_every_answer_has_a_request_id_of_its_own(rest: Rest) -> None:
    """Answers and problems, in the header and, of problems, in the body."""
    path = path_to(ORGANIZATION_LIMITS, rest.world.ours)
    answers = [await rest.call("GET", path, role=role) for role in (*ROLES, None)]

    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(ids)
    assert [a.body["request_id"] for a in answers[3:]] == ids[3:]
    assert {a.headers["cache-control"] for a in answers} == {"no-store"}


async def test_fault_of_ours_is_masked_and_logged(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets an id, not a stack trace; the log gets both."""

    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("postgres://ibex:secret@host/")

    monkeypatch.setattr(Management, "organizations", fail)
    with capture_logs() as logs:
        answer = await rest.call("GET", "/v1/organizations")

    assert (answer.status, answer.body["type"]) == (500, "urn:ibex:problem:internal")
    assert "secret" not in str(answer)
    (logged,) = logs
    assert logged["request_id"] == answer.body["request_id"]
    assert isinstance(logged["exc_info"], RuntimeError)


async def test_without_the_database_management_is_unavailable(
    rest: Rest, pool: asyncpg.Pool
) -> None:
    """503 for reading and changing, without saying where the database is."""
    await pool.close()
    path = path_to(ORGANIZATION_LIMITS, rest.world.ours)

    for method in ("GET", "PATCH"):
        answer = await rest.call(method, path, {})

        assert (answer.status, answer.body["type"]) == (503, "urn:ibex:problem:unavailable")
        assert answer.body["detail"] == "The database does not answer: nothing was changed."

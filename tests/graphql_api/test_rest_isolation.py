"""Every operation of REST, for every kind of key, on what is theirs, another's, and nobody's."""

from typing import Any

import asyncpg
import pytest
from operators import NOWHERE, Tenant
from rest_server import Answer, Rest, path_to

from db.api_keys import Role
from graphql_api.rest import OPERATIONS
from graphql_api.rest_operation import Operation

WITH_IDS = [operation for operation in OPERATIONS if "{" in operation.path]
TABLES = ("organizations", "agents", "api_keys", "rate_limit_overrides", "rate_limit_changes")


def named(operation: Operation) -> str:
    return operation.handler.__name__


def body_for(operation: Operation, tenant: Tenant | None) -> Any:
    """A body that the operation takes, with that tenant's ids."""
    agent_id = tenant.agent_id if tenant else NOWHERE
    return {
        "create_organization": {"name": "new"},
        "create_agent": {"name": "new"},
        "issue_key": {"role": "agent", "agent_id": agent_id},
        "issue_platform_key": {},
        "change_organization_rate_limits": {"requests_per_minute": 5},
        "change_agent_rate_limits": {"requests_per_minute": 5},
    }.get(named(operation))


async def ask(rest: Rest, operation: Operation, tenant: Tenant | None, role: str) -> Answer:
    return await rest.call(
        operation.method,
        path_to(operation.path, tenant),
        body_for(operation, tenant),
        role=role,
    )


def without_ids(answer: Answer, tenant: Tenant | None) -> str:
    """All that was answered, but for the ids that the caller sent itself and the request's id."""
    text = str(answer.without_request_id())
    ids = (tenant.id, tenant.agent_id, *tenant.key_ids.values()) if tenant else (NOWHERE,)
    for id_ in ids:
        text = text.replace(id_, "ID")
    return text


async def contents(pool: asyncpg.Pool) -> list[Any]:
    """Every row of every table."""
    return [await pool.fetch(f"SELECT * FROM ibex_core.{table} ORDER BY 1, 2") for table in TABLES]


@pytest.mark.parametrize("operation", WITH_IDS, ids=named)
async def test_api_iso_ratelimit_rest_another_organization_looks_like_none(
    rest: Rest, pool: asyncpg.Pool, operation: Operation
) -> None:
    """Byte for byte and header for header the answer is that for an id which nothing has."""
    before = await contents(pool)

    for role in ("admin", "read_only"):
        theirs = await ask(rest, operation, rest.world.theirs, role)
        nobodys = await ask(rest, operation, None, role)

        assert theirs.status == nobodys.status == 404
        assert without_ids(theirs, rest.world.theirs) == without_ids(nobodys, None)
    assert (await contents(pool), rest.world.channel.published) == (before, [])


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
async def test_api_iso_ratelimit_rest_each_key_may_what_is_declared(
    rest: Rest, operation: Operation
) -> None:
    """On their own: exactly the roles of /openapi.json succeed; who only reads is told so."""
    for role in (Role.READ_ONLY, Role.ADMIN, Role.PLATFORM):
        answer = await ask(rest, operation, rest.world.ours, role)

        expected = operation.status if role in operation.roles else 403
        assert (role, answer.status) == (role, expected)
    assert (await ask(rest, operation, rest.world.ours, "agent")).status == 401


@pytest.mark.parametrize("operation", WITH_IDS, ids=named)
async def test_api_iso_ratelimit_rest_platform_operators_reach_everybody(
    rest: Rest, operation: Operation
) -> None:
    """What exists they reach, whosever it is; what does not is not found."""
    assert (await ask(rest, operation, rest.world.theirs, "platform")).status == operation.status
    assert (await ask(rest, operation, None, "platform")).status == 404


async def test_api_iso_ratelimit_rest_bodies_take_no_ids_of_others(
    rest: Rest, pool: asyncpg.Pool
) -> None:
    """Their agent gets no key by way of our organization, nor is it told from none."""
    path = path_to("/v1/organizations/{organization_id}/keys", rest.world.ours)
    before = await contents(pool)

    answers = [
        await rest.call("POST", path, {"role": "agent", "agent_id": id_}, role=role)
        for role in ("admin", "read_only", "platform")
        for id_ in (rest.world.theirs.agent_id, NOWHERE)
    ]

    assert {answer.status for answer in answers} == {404}
    assert (
        len({without_ids(answer, rest.world.theirs).replace(NOWHERE, "ID") for answer in answers})
        == 1
    )
    assert await contents(pool) == before


async def test_api_iso_ratelimit_rest_paths_do_not_mix_organizations(rest: Rest) -> None:
    """Their agent has no limits under our organization."""
    path = "/v1/organizations/{}/agents/{}/rate-limits"
    for role in ("admin", "read_only", "platform"):
        for id_ in (rest.world.theirs.agent_id, NOWHERE):
            url = path.format(rest.world.ours.id, id_)
            outdated = {"If-Match": '"1"'}
            read = await rest.call("GET", url, role=role)
            changed = await rest.call("PATCH", url, {}, role=role, headers=outdated)
            assert (read.status, changed.status) == (404, 404)

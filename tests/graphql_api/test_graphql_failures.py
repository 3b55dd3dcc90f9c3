"""What a GraphQL caller is told when something fails here: that it did, and never why."""

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import patch

import pytest
from graphql_server import Caller, error_of, graphql_server
from operators import World

from db.api_keys import Role
from graphql_api import view
from graphql_api.auth import Authenticator
from graphql_api.errors import DatabaseUnavailable, LimiterError
from graphql_api.management import Management

QUERY = "{ viewer { role } }"


@pytest.fixture
async def platform(operated: World) -> AsyncIterator[Caller]:
    """An operator of the platform, who could do everything."""
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        yield server.caller(operated.platform_key)


async def test_a_fault_of_ours_is_logged_and_not_told(
    platform: Caller, operated: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client gets a request id, the log gets the reason under that id."""
    reason = "postgres://user:password@host/db"
    with patch.object(Management, "organization", side_effect=RuntimeError(reason)):
        answer = await platform.ask(
            "query($id: ID!) { organization(id: $id) { id } }", {"id": operated.ours.id}
        )

    assert answer.code == "INTERNAL_SERVER_ERROR"
    assert "password" not in answer.response.text
    logged = capsys.readouterr().out
    assert reason in logged
    assert answer.error["extensions"]["requestId"] in logged


async def test_a_failure_before_execution_is_500_in_the_same_shape(platform: Caller) -> None:
    """Also where nothing was executed, the reason stays here."""
    with patch.object(view, "_execute", side_effect=RuntimeError("secret")):
        answer = await platform.send(json={"query": QUERY})

    assert answer.status_code == 500
    assert error_of(answer)["extensions"]["code"] == "INTERNAL_SERVER_ERROR"
    assert "secret" not in answer.text


async def test_without_postgres_nobody_can_be_known(platform: Caller) -> None:
    """503, without the address that could not be reached."""
    with patch.object(Authenticator, "viewer", side_effect=DatabaseUnavailable("host secret")):
        answer = await platform.send(json={"query": QUERY})

    assert answer.status_code == 503
    assert error_of(answer)["extensions"]["code"] == "SERVICE_UNAVAILABLE"
    assert "secret" not in answer.text


async def test_without_redis_the_rest_of_a_query_is_answered(
    platform: Caller, operated: World
) -> None:
    """Live numbers are SERVICE_UNAVAILABLE; what needs none of them is there."""
    query = """query($id: ID!) { viewer { role }
        rateLimitUsage(organizationId: $id) { points { requests } } }"""
    with patch.object(Management, "usage", side_effect=LimiterError("redis://secret")):
        alone = await platform.ask(
            "query($id: ID!) { organization(id: $id) { usage { points { requests } } } }",
            {"id": operated.ours.id},
        )
        both = await platform.ask(query, {"id": operated.ours.id})

    for answer in (alone, both):
        assert answer.code == "SERVICE_UNAVAILABLE"
        assert "secret" not in answer.response.text
    assert both.response.status_code == 200


async def test_many_at_once_are_told_apart(platform: Caller, operated: World) -> None:
    """Concurrent requests with different keys each see their own viewer."""
    keys = [operated.ours.secrets[Role.ADMIN], operated.theirs.secrets[Role.READ_ONLY]] * 10
    answers = await asyncio.gather(
        *(platform.with_key(key).ask("{ viewer { keyName } }") for key in keys)
    )

    names = [answer.data["viewer"]["keyName"] for answer in answers]
    assert names == ["Ours admin", "Theirs read_only"] * 10

"""Changes by GraphQL: what they are answered with, and what they leave."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from graphql_server import Caller, graphql_server
from operators import World

from db.api_keys import Role
from graphql_api.auth import Authenticator

UPDATE = "mutation($input: UpdateRateLimitsInput!) { updateRateLimits(input: $input) { %s } }"
LIMITS = """
    orgRequestsPerMinute orgTokensPerMonth overrides { requestsPerMinute tokensPerMonth }
    version updatedAt updatedBy published
"""
KEY = "id role organizationId agentId prefix name createdAt revokedAt published"


@pytest.fixture
async def admin(operated: World) -> AsyncIterator[Caller]:
    """An administrator of our organization."""
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        yield server.caller(operated.ours.secrets[Role.ADMIN])


async def update(caller: Caller, fields: str = LIMITS, **changes: Any) -> Any:
    """The answer to one update."""
    return await caller.ask(UPDATE % fields, {"input": changes})


async def test_an_update_is_answered_and_told_to_the_gateways(
    admin: Caller, operated: World
) -> None:
    """The new limits come back with their author, and the organization's gateways are told."""
    limits = (await update(admin, organizationId=operated.ours.id, requestsPerMinute=7)).data[
        "updateRateLimits"
    ]

    assert limits["orgRequestsPerMinute"] == 7
    assert limits["overrides"] == {"requestsPerMinute": 7, "tokensPerMonth": None}
    assert limits["updatedBy"] == operated.ours.admin.actor
    assert limits["updatedAt"] is not None
    assert limits["published"] is True
    assert operated.channel.published == [operated.ours.id]


@pytest.mark.parametrize("large", [2**31, 3_000_000_000, 2**53 - 1])
async def test_limits_beyond_32_bits_pass_as_literal_and_as_variable(
    admin: Caller, operated: World, large: int
) -> None:
    """A limit that GraphQL's Int cannot hold is set and read exactly, in both ways of writing."""
    ours = operated.ours.id
    as_variable = await update(admin, organizationId=ours, tokensPerMonth=large)
    as_literal = await admin.ask(
        f'mutation {{ updateRateLimits(input: {{organizationId: "{ours}", '
        f"tokensPerMonth: {large}}}) {{ orgTokensPerMonth }} }}"
    )

    assert as_variable.data["updateRateLimits"]["orgTokensPerMonth"] == large
    assert as_literal.data["updateRateLimits"]["orgTokensPerMonth"] == large


async def test_a_whole_number_may_be_written_with_a_fraction_of_zero(
    admin: Caller, operated: World
) -> None:
    """JSON has one kind of number: 60.0 is 60, as it is for REST."""
    answer = await update(admin, organizationId=operated.ours.id, tokensPerMonth=60.0)

    assert answer.data["updateRateLimits"]["orgTokensPerMonth"] == 60


async def test_absent_keeps_and_null_inherits(admin: Caller, operated: World) -> None:
    """A limit that is left out stays, one that is null goes back to the default; 0 is a limit."""
    ours = operated.ours.id
    await update(admin, organizationId=ours, requestsPerMinute=10, tokensPerMonth=100)

    async def overrides(variables: dict[str, Any], given: str) -> Any:
        declared = "($n: BigInt)" if "$n" in given else ""
        answer = await admin.ask(
            f"""mutation{declared} {{
                updateRateLimits(input: {{organizationId: "{ours}" {given}}}) {{
                    overrides {{ requestsPerMinute tokensPerMonth }} }} }}""",
            variables,
        )
        return tuple(answer.data["updateRateLimits"]["overrides"].values())

    assert await overrides({}, "") == (10, 100)
    assert await overrides({}, "requestsPerMinute: $n") == (10, 100)
    assert await overrides({"n": None}, "requestsPerMinute: $n") == (None, 100)
    assert await overrides({}, "requestsPerMinute: 0") == (0, 100)
    assert await overrides({}, "requestsPerMinute: null, tokensPerMonth: null") == (None, None)


async def test_an_outdated_version_is_a_conflict(admin: Caller, operated: World) -> None:
    """Of two writers that expect the same version, the second is refused and changes nothing."""
    ours = operated.ours.id
    first = await update(admin, organizationId=ours, requestsPerMinute=1)
    version = first.data["updateRateLimits"]["version"]
    await update(admin, organizationId=ours, requestsPerMinute=2, expectedVersion=version)
    late = await update(admin, organizationId=ours, requestsPerMinute=3, expectedVersion=version)

    assert late.code == "CONFLICT"
    left = await update(admin, organizationId=ours)
    assert left.data["updateRateLimits"]["orgRequestsPerMinute"] == 2


async def test_a_change_that_could_not_be_published_says_so(admin: Caller, operated: World) -> None:
    """The change stands; asking for live numbers that are not known says that too."""
    operated.channel.connected = False
    ours = operated.ours.id
    told = await update(
        admin, "published orgRequestsPerMinute", organizationId=ours, requestsPerMinute=4
    )
    asked = await update(admin, "heldTokens", organizationId=ours, requestsPerMinute=5)

    assert told.data["updateRateLimits"] == {"published": False, "orgRequestsPerMinute": 4}
    assert asked.code == "SERVICE_UNAVAILABLE"
    assert "The change was made" in asked.error["message"]
    left = await operated.management.rate_limits(operated.ours.admin, ours)
    assert left.overrides.requests_per_minute == 5


async def test_the_platform_creates_organizations_agents_and_keys(
    admin: Caller, operated: World
) -> None:
    """What was created can be used at once, and a key that was revoked cannot."""
    platform = admin.with_key(operated.platform_key)
    made = await platform.ask(
        'mutation { createOrganization(name: "New") { id name version createdAt } }'
    )
    org_id = made.data["createOrganization"]["id"]
    agent = await platform.ask(
        'mutation($o: ID!) { createAgent(organizationId: $o, name: "bot") { id published } }',
        {"o": org_id},
    )
    issued = await platform.ask(
        f'mutation($o: ID) {{ issueKey(role: READ_ONLY, organizationId: $o, name: "n") '
        f"{{ key {{ {KEY} }} secret published }} }}",
        {"o": org_id},
    )
    key = issued.data["issueKey"]
    reader = admin.with_key(key["secret"])
    listed = await reader.ask("{ organizations { nodes { id agents { nodes { id } } } } }")
    revoked = await platform.ask(
        "mutation($id: ID!) { revokeKey(id: $id) { id revokedAt published } }",
        {"id": key["key"]["id"]},
    )
    refused = await reader.ask("{ viewer { role } }")

    assert agent.data["createAgent"]["published"] is True
    assert key["published"] is True
    assert key["key"]["published"] is True
    assert listed.data["organizations"]["nodes"] == [
        {"id": org_id, "agents": {"nodes": [{"id": agent.data["createAgent"]["id"]}]}}
    ]
    assert revoked.data["revokeKey"]["revokedAt"] is not None
    assert refused.response.status_code == 401


async def test_a_reader_changes_nothing(admin: Caller, operated: World) -> None:
    """A read_only key reads limits, and is FORBIDDEN to set them."""
    reader = admin.with_key(operated.ours.secrets[Role.READ_ONLY])
    refused = await update(reader, organizationId=operated.ours.id, requestsPerMinute=1)

    assert refused.code == "FORBIDDEN"
    assert refused.response.json()["data"] is None
    assert operated.channel.published == []

"""The GraphQL schema over the use cases: what is asked for, what is changed, how often is asked."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from graphql import get_introspection_query
from graphql_server import Caller, graphql_server
from limited_traffic import Traffic
from operators import DEFAULTS, NOWHERE, World

from db.api_keys import Role
from graphql_api.auth import Authenticator
from graphql_api.schema import schema

EXPORTED = Path(__file__).parents[2] / "graphql_api" / "schema.graphql"
LIMITS = """
    organizationId agentId orgRequestsPerMinute agentRequestsPerMinute orgTokensPerMonth
    overrides { requestsPerMinute tokensPerMonth }
    currentMinuteRequests currentMonthTokens heldTokens inFlight resetAt
    version updatedAt updatedBy published
"""
KEY = "id role organizationId agentId prefix name createdAt revokedAt published"


@pytest.fixture
async def admin(operated: World) -> AsyncIterator[Caller]:
    """An administrator of our organization."""
    authenticator = Authenticator(operated.repository)
    async with graphql_server(operated.management, authenticator) as server:
        yield server.caller(operated.ours.secrets[Role.ADMIN])


@pytest.fixture
def platform(admin: Caller, operated: World) -> Caller:
    """An operator of the platform, of the same server."""
    return admin.with_key(operated.platform_key)


@contextmanager
def counted(pool: asyncpg.Pool) -> Iterator[list[str]]:
    """Every query that reads our tables, on any connection of the pool."""
    queries: list[str] = []

    def note(record: Any) -> None:
        if "ibex_core" in record.query:
            queries.append(record.query)

    connections = [holder._con for holder in pool._holders if holder._con]
    for connection in connections:
        connection.add_query_logger(note)
    yield queries
    for connection in connections:
        connection.remove_query_logger(note)


def test_the_exported_schema_is_the_schema() -> None:
    """What clients read in the repository is what is served."""
    assert EXPORTED.read_text("utf-8") == f"{schema.as_str()}\n"


async def test_the_viewer_is_told_who_it_is(admin: Caller, operated: World) -> None:
    """A key tells its own id, name, role and organization."""
    answer = await admin.ask("{ viewer { keyId keyName role organizationId } }")

    ours = operated.ours
    assert answer.data["viewer"] == {
        "keyId": ours.key_ids[Role.ADMIN],
        "keyName": "Ours admin",
        "role": "ADMIN",
        "organizationId": ours.id,
    }


async def test_limits_of_an_organization_are_the_defaults_until_changed(
    admin: Caller, operated: World
) -> None:
    """Every field of RateLimits is answered, with nothing set and nothing used."""
    answer = await admin.ask(
        f"query($id: ID!) {{ rateLimits(organizationId: $id) {{ {LIMITS} }} }}",
        {"id": operated.ours.id},
    )

    limits = answer.data["rateLimits"]
    assert limits.pop("resetAt") is not None
    assert limits.pop("version") >= 1
    assert limits == {
        "organizationId": operated.ours.id,
        "agentId": None,
        "orgRequestsPerMinute": DEFAULTS.org_rpm,
        "agentRequestsPerMinute": DEFAULTS.agent_rpm,
        "orgTokensPerMonth": DEFAULTS.org_tokens_per_month,
        "overrides": {"requestsPerMinute": None, "tokensPerMonth": None},
        "currentMinuteRequests": 0,
        "currentMonthTokens": 0,
        "heldTokens": 0,
        "inFlight": 0,
        "updatedAt": None,
        "updatedBy": None,
        "published": None,
    }


async def test_the_platform_limit_is_for_platform_operators(
    admin: Caller, platform: Caller, operated: World
) -> None:
    """Others get FORBIDDEN for this field, and the rest of their answer."""
    query = (
        "query($id: ID!) { rateLimits(organizationId: $id) { globalRequestsPerMinute version } }"
    )
    seen = await platform.ask(query, {"id": operated.ours.id})
    hidden = await admin.ask(query, {"id": operated.ours.id})

    assert seen.data["rateLimits"]["globalRequestsPerMinute"] == DEFAULTS.global_rpm
    assert hidden.code == "FORBIDDEN"
    partial = hidden.response.json()["data"]["rateLimits"]
    assert partial["globalRequestsPerMinute"] is None
    assert partial["version"] >= 1


@pytest.mark.parametrize("level", ["agentId", "organizationId", None])
async def test_usage_is_sixty_minutes(
    platform: Caller, operated: World, traffic: Traffic, level: str | None
) -> None:
    """An agent, an organization and the platform each have 60 points, the oldest first."""
    for _ in range(3):
        traffic.forwarded_open(operated.ours.id, operated.ours.agent_id)
    await traffic.request(operated.ours.id, operated.ours.agent_id, 9, is_estimate=True)
    await traffic.settled()
    ids = {"agentId": operated.ours.agent_id, "organizationId": operated.ours.id}
    answer = await platform.ask(
        "query($agentId: ID, $organizationId: ID) {"
        " rateLimitUsage(agentId: $agentId, organizationId: $organizationId) {"
        " points { timestamp requests tokens estimated open"
        " denied { agent org global tokens } } } }",
        {level: ids[level]} if level else {},
    )

    points = answer.data["rateLimitUsage"]["points"]
    times = [point["timestamp"] for point in points]
    assert len(points) == 60
    assert times == sorted(set(times))
    assert [point["open"] for point in points if point["open"]] == [3]
    used = [(point["requests"], point["tokens"], point["estimated"]) for point in points]
    assert sorted(used)[-2:] == [(0, 0, 0), (1, 9, 9)]
    assert points[0]["denied"] == {"agent": 0, "org": 0, "global": 0, "tokens": 0}


async def test_usage_is_of_one_thing(admin: Caller, operated: World) -> None:
    """Both ids at once are refused, and so is the platform's usage to others."""
    ours = operated.ours
    query = "query($a: ID, $o: ID) { rateLimitUsage(agentId: $a, organizationId: $o) { points { requests } } }"  # noqa: E501 - one line reads better
    both = await admin.ask(query, {"a": ours.agent_id, "o": ours.id})
    neither = await admin.ask(query)

    assert (both.code, both.error["extensions"]["field"]) == ("BAD_USER_INPUT", "organizationId")
    assert neither.code == "FORBIDDEN"


async def test_changes_come_in_pages_the_newest_first(admin: Caller, operated: World) -> None:
    """Following endCursor sees every change once, with who made it through what."""
    ours = operated.ours.id
    for limit in (1, 2, 3):
        await admin.ask(
            f'mutation {{ updateRateLimits(input: {{organizationId: "{ours}", '
            f"requestsPerMinute: {limit}}}) {{ version }} }}"
        )
    query = """query($id: ID!, $after: String) {
        rateLimitChanges(organizationId: $id, first: 2, after: $after) {
            nodes { id at by via organizationId agentId field old new }
            pageInfo { hasNextPage endCursor } } }"""
    first = (await admin.ask(query, {"id": ours})).data["rateLimitChanges"]
    after = first["pageInfo"]["endCursor"]
    second = (await admin.ask(query, {"id": ours, "after": after})).data["rateLimitChanges"]

    seen = [(node["old"], node["new"]) for node in first["nodes"] + second["nodes"]]
    assert seen == [(2, 3), (1, 2), (None, 1)]
    assert first["pageInfo"]["hasNextPage"]
    assert second["pageInfo"] == {"hasNextPage": False, "endCursor": None}
    assert first["nodes"][0]["via"] == "graphql"
    assert first["nodes"][0]["by"] == operated.ours.admin.actor


async def test_an_organization_shows_agents_keys_limits_and_usage(
    admin: Caller, operated: World
) -> None:
    """One query shows what an organization has, and no secret."""
    answer = await admin.ask(
        f"""query($id: ID!) {{ organization(id: $id) {{
            id name version createdAt
            agents {{ nodes {{ id organizationId name createdAt published
                rateLimits {{ agentId currentMinuteRequests }} }} pageInfo {{ hasNextPage }} }}
            keys {{ nodes {{ {KEY} }} pageInfo {{ endCursor }} }}
            rateLimits {{ agentId orgRequestsPerMinute }}
            usage {{ points {{ requests }} }} }} }}""",
        {"id": operated.ours.id},
    )

    found, ours = answer.data["organization"], operated.ours
    assert (found["id"], found["name"]) == (ours.id, "Ours")
    (agent,) = found["agents"]["nodes"]
    assert agent["id"] == agent["rateLimits"]["agentId"] == ours.agent_id
    assert {key["id"] for key in found["keys"]["nodes"]} == set(ours.key_ids.values())
    assert {key["role"] for key in found["keys"]["nodes"]} == {"ADMIN", "READ_ONLY", "AGENT"}
    assert found["rateLimits"] == {
        "agentId": None,
        "orgRequestsPerMinute": DEFAULTS.org_rpm,
    }
    assert len(found["usage"]["points"]) == 60
    assert not any(secret in answer.response.text for secret in ours.secrets.values())


async def test_introspection_takes_a_key_and_fits_the_limits(admin: Caller) -> None:
    """The query that tools send is answered with a key, and 401 without one."""
    query = get_introspection_query(input_value_deprecation=True)
    with_key = await admin.ask(query)
    without = await admin.with_key(None).ask(query)

    assert with_key.data["__schema"]["queryType"]["name"] == "Query"
    assert without.response.status_code == 401
    assert without.code == "UNAUTHENTICATED"


async def test_the_number_of_queries_does_not_grow_with_the_agents(
    admin: Caller, operated: World, pool: asyncpg.Pool
) -> None:
    """Organization, agents and the limits of each: as many queries for 20 as for 1."""
    query = """query($id: ID!) { organization(id: $id) {
        agents(first: 500) { nodes { rateLimits { agentId currentMinuteRequests } } } } }"""

    async def asked() -> tuple[int, int]:
        with counted(pool) as queries:
            answer = await admin.ask(query, {"id": operated.ours.id})
        return len(answer.data["organization"]["agents"]["nodes"]), len(queries)

    agents, few = await asked()
    for number in range(19):
        await operated.management.create_agent(
            operated.ours.admin, operated.ours.id, f"agent {number}"
        )

    assert agents == 1
    assert 0 < few <= 6
    assert await asked() == (20, few)


async def test_unknown_organizations_are_not_found(admin: Caller) -> None:
    """The error names what does not exist, and where in the query."""
    answer = await admin.ask("query($id: ID!) { organization(id: $id) { id } }", {"id": NOWHERE})

    assert answer.code == "NOT_FOUND"
    assert answer.error["message"] == f"there is no organization {NOWHERE}"
    assert answer.error["path"] == ["organization"]
    assert answer.error["extensions"]["requestId"] == answer.response.headers["x-request-id"]

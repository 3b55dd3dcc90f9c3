"""GraphQL shows and changes nothing of another organization, and does not tell that there is one.

Every field and every id that an input takes, for every kind of key.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from graphql_server import Answer, Caller, graphql_server
from operators import NOWHERE, Tenant, World

from db.api_keys import Role
from graphql_api.auth import Authenticator

POINTS = "{ points { requests } }"
LIMITS = "{ version currentMinuteRequests }"
READS = {
    "rateLimits": f"query($org: ID!) {{ rateLimits(organizationId: $org) {LIMITS} }}",
    "rateLimits of an agent": (
        f"query($org: ID!, $agent: ID!) "
        f"{{ rateLimits(organizationId: $org, agentId: $agent) {LIMITS} }}"
    ),
    "rateLimitUsage of an organization": (
        f"query($org: ID!) {{ rateLimitUsage(organizationId: $org) {POINTS} }}"
    ),
    "rateLimitUsage of an agent": (
        f"query($agent: ID!) {{ rateLimitUsage(agentId: $agent) {POINTS} }}"
    ),
    "usageHistory of an organization": (
        "query($org: ID!) { usageHistory(organizationId: $org) { start } }"
    ),
    "usageHistory of an agent": "query($agent: ID!) { usageHistory(agentId: $agent) { start } }",
    "rateLimitChanges": (
        "query($org: ID!) { rateLimitChanges(organizationId: $org) { nodes { id } } }"
    ),
    "organization and all that is nested": (
        f"query($org: ID!) {{ organization(id: $org) {{ id rateLimits {LIMITS} usage {POINTS}"
        f" agents {{ nodes {{ id rateLimits {LIMITS} }} }} keys {{ nodes {{ id }} }} }} }}"
    ),
}
WRITES = {
    "updateRateLimits": (
        "mutation($org: ID!) { updateRateLimits("
        "input: {organizationId: $org, requestsPerMinute: 1}) { version } }"
    ),
    "updateRateLimits of an agent": (
        "mutation($org: ID!, $agent: ID!) { updateRateLimits("
        "input: {organizationId: $org, agentId: $agent, requestsPerMinute: 1}) { version } }"
    ),
    "createAgent": (
        'mutation($org: ID!) { createAgent(organizationId: $org, name: "new") { id } }'
    ),
    "issueKey of an agent": (
        "mutation($agent: ID!) { issueKey(role: AGENT, agentId: $agent) { secret } }"
    ),
    "issueKey of an agent of an organization": (
        "mutation($org: ID!, $agent: ID!) "
        "{ issueKey(role: AGENT, organizationId: $org, agentId: $agent) { secret } }"
    ),
    "issueKey of an admin": (
        "mutation($org: ID!) { issueKey(role: ADMIN, organizationId: $org) { secret } }"
    ),
    "revokeKey": "mutation($key: ID!) { revokeKey(id: $key) { id } }",
}
CROSSED = {
    # An organization that is ours, with an agent that is not.
    "rateLimits": READS["rateLimits of an agent"],
    "updateRateLimits": WRITES["updateRateLimits of an agent"],
    "issueKey": WRITES["issueKey of an agent of an organization"],
}


@pytest.fixture
async def anyone(operated: World) -> AsyncIterator[Caller]:
    """A caller without a key, of a running server."""
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        yield server.caller(None)


def ids(tenant: Tenant) -> dict[str, str]:
    """What an organization's things are called by."""
    return {"org": tenant.id, "agent": tenant.agent_id, "key": tenant.key_ids[Role.AGENT]}


UNKNOWN = {"org": NOWHERE, "agent": NOWHERE, "key": NOWHERE}


async def ask(caller: Caller, query: str, named: Mapping[str, str]) -> Answer:
    """The answer to a query about these ids, of which it takes those that it declares."""
    return await caller.ask(
        query, {name: id_ for name, id_ in named.items() if f"${name}:" in query}
    )


def without_ids(answer: Answer, named: Mapping[str, str]) -> Any:
    """Everything that was answered but the ids that were asked for, the request's and the time."""
    text = answer.response.text
    for id_ in {*named.values(), answer.response.headers["x-request-id"]}:
        text = text.replace(id_, "-")
    moving = {"x-request-id", "date", "content-length"}
    headers = {n: v for n, v in answer.response.headers.items() if n not in moving}
    return answer.response.status_code, headers, json.loads(text)


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READ_ONLY])
@pytest.mark.parametrize("query", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
async def test_api_iso_ratelimit_graphql_another_organization_is_none(
    anyone: Caller, operated: World, query: str, role: Role
) -> None:
    """What is another organization's is answered, byte for byte, as what does not exist."""
    viewer = anyone.with_key(operated.ours.secrets[role])
    theirs, nothing = ids(operated.theirs), UNKNOWN
    other = await ask(viewer, query, theirs)
    unknown = await ask(viewer, query, nothing)

    assert other.code == "NOT_FOUND"
    assert without_ids(other, theirs) == without_ids(unknown, nothing)
    assert operated.channel.published == []


@pytest.mark.parametrize("query", CROSSED.values(), ids=CROSSED)
async def test_api_iso_ratelimit_graphql_another_agent_in_our_organization_is_none(
    anyone: Caller, operated: World, query: str
) -> None:
    """Naming our organization does not open another one's agent, for the platform neither."""
    theirs = {**ids(operated.ours), "agent": operated.theirs.agent_id}
    nothing = {**theirs, "agent": NOWHERE}
    for key in (operated.ours.secrets[Role.ADMIN], operated.platform_key):
        viewer = anyone.with_key(key)
        other, unknown = await ask(viewer, query, theirs), await ask(viewer, query, nothing)

        assert other.code == "NOT_FOUND"
        assert without_ids(other, theirs) == without_ids(unknown, nothing)


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READ_ONLY])
@pytest.mark.parametrize("query", READS.values(), ids=READS)
async def test_api_iso_ratelimit_graphql_own_organization_is_read(
    anyone: Caller, operated: World, query: str, role: Role
) -> None:
    """Both kinds of operators read all of their own."""
    viewer = anyone.with_key(operated.ours.secrets[role])

    assert (await ask(viewer, query, ids(operated.ours))).data


@pytest.mark.parametrize("query", WRITES.values(), ids=WRITES)
async def test_api_iso_ratelimit_graphql_only_who_may_write_writes(
    anyone: Caller, operated: World, query: str
) -> None:
    """On their own, a read_only key is FORBIDDEN and changes nothing; an admin's key writes."""
    ours = operated.ours
    reader, admin = (anyone.with_key(ours.secrets[r]) for r in (Role.READ_ONLY, Role.ADMIN))
    refused = await ask(reader, query, ids(ours))

    assert refused.code == "FORBIDDEN"
    assert operated.channel.published == []
    assert (await ask(admin, query, ids(ours))).data


@pytest.mark.parametrize("query", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
async def test_api_iso_ratelimit_graphql_the_platform_reaches_every_organization(
    anyone: Caller, operated: World, query: str
) -> None:
    """A platform key reads and writes everywhere, and what does not exist is NOT_FOUND."""
    platform = anyone.with_key(operated.platform_key)

    assert (await ask(platform, query, ids(operated.theirs))).data
    assert (await ask(platform, query, UNKNOWN)).code == "NOT_FOUND"


@pytest.mark.parametrize("query", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
async def test_api_iso_ratelimit_graphql_agents_and_strangers_get_nothing(
    anyone: Caller, operated: World, query: str
) -> None:
    """An agent's key is refused whole, also for its own organization; so is no key."""
    agent = anyone.with_key(operated.ours.secrets[Role.AGENT])
    for caller in (agent, anyone):
        answer = await ask(caller, query, ids(operated.ours))

        assert answer.response.status_code == 401
        assert answer.response.headers["www-authenticate"] == 'Bearer realm="ibex"'
        assert answer.code == "UNAUTHENTICATED"
        assert "data" not in answer.response.json()


async def test_api_iso_ratelimit_graphql_lists_show_only_what_is_seen(
    anyone: Caller, operated: World
) -> None:
    """Operators list their own organization, the platform's list all; its usage is its own."""
    query = "{ organizations { nodes { id agents { nodes { organizationId } } } } }"
    admin = anyone.with_key(operated.ours.secrets[Role.ADMIN])
    platform = anyone.with_key(operated.platform_key)
    seen = (await admin.ask(query)).data["organizations"]["nodes"]
    all_ = (await platform.ask(query)).data["organizations"]["nodes"]

    assert [node["id"] for node in seen] == [operated.ours.id]
    assert {node["id"] for node in all_} == {operated.ours.id, operated.theirs.id}
    assert (await admin.ask(f"{{ rateLimitUsage {POINTS} }}")).code == "FORBIDDEN"
    assert (await admin.ask('mutation { createOrganization(name: "x") { id } }')).code == (
        "FORBIDDEN"
    )
    assert (await admin.ask("mutation { issueKey(role: PLATFORM) { secret } }")).code == (
        "FORBIDDEN"
    )

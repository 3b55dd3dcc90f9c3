"""Operators' changes as traffic feels them: the management API on the gateway's own port."""

import time
from collections.abc import Iterator

import httpx
import pytest
import redis
from changing import AT_ONCE_S
from counters import Counters
from gateway_stack import Stack, StartGateway, Tenant
from raw_calls import provision
from raw_upstream import RawUpstream
from servers import RedisServer, eventually
from traffic import USED, chat

from db.api_keys import Role

CERTAINLY_BOTH = 12
"""So many connections in a row reach each of two workers."""
MUTATION = """
    mutation ($input: UpdateRateLimitsInput!) {
        updateRateLimits(input: $input) { agentRequestsPerMinute version }
    }
"""


@pytest.fixture
def two_workers(
    request: pytest.FixtureRequest,
    redis_server: RedisServer,
    start_gateway: StartGateway,
    raw: RawUpstream,
) -> Iterator[Stack]:
    """A gateway of two workers, its poll as the test says. Nothing may be admitted open."""
    assert raw.requests == []
    stack = start_gateway(
        redis_server, "--workers", "2", CONFIG_POLL_S=request.param, LIMITER_DEADLINE_MS="5000"
    )
    assert eventually(lambda: stack.gateway.log.count("gateway ready") == 2)
    yield stack
    assert "admitted without a decision" not in stack.gateway.log


def operator(stack: Stack, tenant: Tenant, role: Role = Role.ADMIN) -> httpx.Client:
    """A client with a new operator's key of the tenant."""
    key = stack.tenants.run(lambda service: service.issue_operator_key(tenant.id, role)).value.key
    return httpx.Client(base_url=stack.url, headers={"Authorization": f"Bearer {key}"}, timeout=10)


def statuses(stack: Stack, tenant: Tenant) -> set[int]:
    return {chat(stack, tenant.agent).status for _ in range(CERTAINLY_BOTH)}


def patch(client: httpx.Client, tenant: Tenant, body: dict[str, int | None]) -> httpx.Response:
    path = f"/v1/organizations/{tenant.id}/agents/{tenant.agent.id}/rate-limits"
    return client.patch(path, json=body)


@pytest.mark.parametrize("two_workers", ["30"], indirect=True)
def test_a_patch_and_a_mutation_are_felt_by_both_workers(two_workers: Stack) -> None:
    """Within a second of the answer: admitted, denied by the PATCH, admitted by the mutation."""
    stack, tenant = two_workers, provision(two_workers)
    with operator(stack, tenant) as client:
        assert statuses(stack, tenant) == {200}

        answer = patch(client, tenant, {"requests_per_minute": 0})
        changed = time.monotonic()

        assert (answer.status_code, answer.json()["agent_requests_per_minute"]) == (200, 0)
        assert eventually(lambda: statuses(stack, tenant) == {429}, AT_ONCE_S)
        assert time.monotonic() - changed < AT_ONCE_S

        change = {"organizationId": tenant.id, "agentId": tenant.agent.id, "requestsPerMinute": 500}
        answer = client.post("/graphql", json={"query": MUTATION, "variables": {"input": change}})
        changed = time.monotonic()

        limits = answer.json()["data"]["updateRateLimits"]
        assert limits["agentRequestsPerMinute"] == 500
        assert eventually(lambda: statuses(stack, tenant) == {200}, AT_ONCE_S)
        assert time.monotonic() - changed < AT_ONCE_S


@pytest.mark.parametrize("two_workers", ["1.5"], indirect=True)
def test_a_change_that_nobody_hears_is_felt_by_the_poll(two_workers: Stack) -> None:
    """Where the server lets nobody publish or subscribe."""
    stack, tenant = two_workers, provision(two_workers)
    with operator(stack, tenant) as client, redis.Redis.from_url(stack.redis.url) as admin:
        admin.execute_command("ACL", "SETUSER", "default", "resetchannels")
        try:
            admin.client_kill_filter(_type="pubsub")
            answer = patch(client, tenant, {"requests_per_minute": 0})

            assert (answer.status_code, answer.json()["agent_requests_per_minute"]) == (200, 0)
            assert answer.headers["Ibex-Takes-Effect"] == "next-poll"
            assert eventually(lambda: statuses(stack, tenant) == {429}, 10)
        finally:
            admin.execute_command("ACL", "SETUSER", "default", "allchannels")


def test_live_numbers_are_the_limiters(stack: Stack, raw: RawUpstream) -> None:
    """What REST and GraphQL tell is what stands in the keys that the limiter decides by."""
    assert raw.requests == []
    tenant = provision(stack, org_rpm=100, tokens=100_000)
    query = (
        "query ($id: ID!) { rateLimits(organizationId: $id) { "
        "currentMinuteRequests currentMonthTokens heldTokens inFlight orgTokensPerMonth } }"
    )
    with operator(stack, tenant, Role.READ_ONLY) as client:
        for number in range(1, 6):
            assert chat(stack, tenant.agent).status == 200
            counters = Counters(stack, tenant)
            assert counters.settled(number * USED)
            told = client.get(f"/v1/organizations/{tenant.id}/rate-limits").json()
            answer = client.post(
                "/graphql", json={"query": query, "variables": {"id": tenant.id}}
            ).json()["data"]["rateLimits"]

            assert told["current_minute_requests"] == counters.requests() == number
            assert told["current_month_tokens"] == counters.tokens() == number * USED
            assert answer == {
                "currentMinuteRequests": number,
                "currentMonthTokens": number * USED,
                "heldTokens": 0,
                "inFlight": 0,
                "orgTokensPerMonth": 100_000,
            }


def test_a_revoked_operators_key_is_refused_at_once(stack: Stack) -> None:
    """The very next request."""
    tenant = provision(stack)
    with operator(stack, tenant) as client:
        path = f"/v1/organizations/{tenant.id}/rate-limits"
        assert client.get(path).status_code == 200
        keys = client.get(f"/v1/organizations/{tenant.id}/keys").json()["keys"]
        (own,) = [key["id"] for key in keys if key["role"] == "admin"]

        assert client.delete(f"/v1/keys/{own}").status_code in (200, 204)

        assert client.get(path).status_code == 401


@pytest.mark.parametrize(
    ("only", "there", "gone"),
    [("gateway", "/raw/v1/x", "/v1/organizations"), ("management", "/v1/organizations", "/limits")],
)
def test_each_part_can_be_served_alone(
    redis_server: RedisServer, start_gateway: StartGateway, only: str, there: str, gone: str
) -> None:
    """What the other part would answer is not found."""
    stack = start_gateway(redis_server, "--only", only)

    assert httpx.get(stack.url + there).status_code == 401
    assert httpx.get(stack.url + gone).status_code == 404

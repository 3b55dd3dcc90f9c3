"""What was forwarded while nobody could decide is told to operators, minute by minute."""

import shutil
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from gateway_stack import Stack, StartGateway, Tenant
from raw_calls import provision
from servers import StartRedis, eventually
from traffic import chat, limiter_state

from db.api_keys import Role

N = 12


def usage(stack: Stack, tenant: Tenant, key: str) -> list[list[dict[str, Any]]]:
    """The last hour of the agent, and of its organization, as their operators read it."""
    headers = {"Authorization": f"Bearer {key}"}
    paths = (f"agents/{tenant.agent.id}", f"organizations/{tenant.id}")
    with httpx.Client(base_url=stack.url, headers=headers, timeout=10) as client:
        return [client.get(f"/v1/{path}/rate-limits/usage").json()["points"] for path in paths]


def total(points: list[dict[str, Any]], kind: str) -> int:
    return sum(point[kind] for point in points)


@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("data", ["kept", "lost"])
def test_the_minutes_of_an_outage_tell_what_was_forwarded(
    start_redis: StartRedis, start_gateway: StartGateway, data: str
) -> None:
    """Every request of the outage, once, in its minute; also by a Redis that comes back empty."""
    server = start_redis()
    stack = start_gateway(server)
    tenant = provision(stack, org_rpm=1_000_000, tokens=10**9)
    key = stack.tenants.run(lambda s: s.issue_operator_key(tenant.id, Role.READ_ONLY)).value.key
    assert not chat(stack, tenant.agent).is_open
    server.stop()
    began = datetime.now(UTC) - timedelta(minutes=1)
    answers = [chat(stack, tenant.agent) for _ in range(N)]
    if data == "lost":
        shutil.rmtree(server.home / "appendonlydir")
    server.start()

    assert {(answer.status, answer.is_open) for answer in answers} == {(200, True)}
    assert eventually(lambda: total(usage(stack, tenant, key)[0], "open") >= N)
    for points in usage(stack, tenant, key):
        open_ = [point for point in points if point["open"]]
        assert total(points, "open") == N
        assert total(points, "requests") == (1 if data == "kept" else 0)
        assert {began < datetime.fromisoformat(p["timestamp"]) <= datetime.now(UTC) for p in open_}
    assert eventually(lambda: limiter_state(stack) == "deciding")
    assert stack.gateway.readyz()["limiter"]["admitted_open"] == N

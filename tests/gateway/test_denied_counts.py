"""What gateways denied is in the charts, to the request."""

from collections import Counter

from gateway_stack import Agent, Stack, StartGateway
from raw_calls import CHAT, call, chat, provision
from raw_upstream import RawUpstream
from servers import RedisServer, eventually, run_apart

from lua import keys
from lua.connection import RedisAddress, connect
from lua.history import last_hour


def denied(stack: Stack, ring: str) -> dict[str, int]:
    """Denials of a ring's last hour, by level."""

    async def read() -> dict[str, int]:
        client = connect(RedisAddress(stack.redis.url), timeout_s=5)
        try:
            total: Counter[str] = Counter()
            for minute in await last_hour(client, ring):
                total.update(minute.denied)
            return dict(total)
        finally:
            await client.aclose()

    return run_apart(read)


def denials(stack: Stack, agent: Agent, requests: int) -> int:
    """How many of so many requests are denied."""
    return [call(stack, agent, CHAT, chat()).status for _ in range(requests)].count(429)


def test_denials_are_in_the_charts_within_seconds(stack: Stack, raw: RawUpstream) -> None:
    """Each by the level that denied it, at its agent and its organization."""
    tenant = provision(stack, agents=2, agent_rpm=2, org_rpm=3)
    first, second = tenant.agents

    assert (denials(stack, first, 5), denials(stack, second, 6)) == (3, 5)
    assert len(raw.requests) == 3

    ring = keys.agent_ring
    assert eventually(lambda: denied(stack, ring(tenant.id, first.id)) == {"agent": 3})
    assert eventually(lambda: denied(stack, ring(tenant.id, second.id)) == {"org": 5})
    assert denied(stack, keys.org_ring(tenant.id)) == {"agent": 3, "org": 5}


def test_denials_of_the_last_moment_are_written_before_the_end(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """Two workers that are stopped right after denying: every denial is there, once."""
    stack = start_gateway(redis_server, "--workers", "2", LIMITER_DEADLINE_MS="5000")
    tenant = provision(stack, agent_rpm=0)
    count = denials(stack, tenant.agent, 30)
    stack.gateway.stop()

    assert count > 20
    for ring in (keys.agent_ring(tenant.id, tenant.agent.id), keys.GLOBAL_RING):
        assert denied(stack, ring) == {"agent": count}

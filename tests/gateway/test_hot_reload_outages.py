"""Changes reach a gateway also when messages get lost, and none does traffic any harm."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial

import pytest
from changing import AT_ONCE_S, felt, hears, limit_of, write_limit
from gateway_stack import Stack, StartGateway, Tenant
from raw_calls import provision
from servers import PostgresServer, RedisServer, StartPostgres, StartRedis, eventually, run_apart
from tcp_proxy import TcpProxy
from traffic import chat, command

from db.migrate import migrate

RESUBSCRIBED_S = 3.0
POLL_S = "1"
POLLED_S = 2.5
NEVER_S = "600"

pytestmark = pytest.mark.usefixtures("raw")


def test_a_killed_subscription_is_made_anew(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Without any poll: also a change that was made while nobody listened is taken over."""
    stack = start_gateway(start_redis(), CONFIG_POLL_S=NEVER_S)
    tenant = provision(stack, org_rpm=1000)

    command(stack.redis, "CLIENT", "KILL", "TYPE", "pubsub")
    write_limit(stack, tenant, 0)

    assert felt(stack, tenant.agent, 429, RESUBSCRIBED_S)
    stack.tenants.limit(tenant, rpm=1000)
    assert felt(stack, tenant.agent, 200, AT_ONCE_S)
    assert hears(stack)


def test_a_restarted_redis_is_subscribed_to_again(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Without any poll: what was changed meanwhile is in force, and changes are heard again."""
    server = start_redis()
    stack = start_gateway(server, CONFIG_POLL_S=NEVER_S)
    tenant = provision(stack, org_rpm=1000)

    server.stop()
    assert eventually(lambda: not hears(stack), 3)
    write_limit(stack, tenant, 0)
    server.start()

    assert eventually(lambda: limit_of(stack, tenant.agent) == 0, RESUBSCRIBED_S)
    assert felt(stack, tenant.agent, 429, RESUBSCRIBED_S)
    stack.tenants.limit(tenant, rpm=1000)
    assert felt(stack, tenant.agent, 200, AT_ONCE_S)


def test_a_change_that_was_not_published_is_obeyed_with_the_next_poll(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """A lost message costs one poll, no more."""
    stack = start_gateway(redis_server, CONFIG_POLL_S=POLL_S)
    tenant = provision(stack, org_rpm=1000)

    write_limit(stack, tenant, 0)

    assert felt(stack, tenant.agent, 429, POLLED_S)


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[TcpProxy]:
    """The network between a gateway and its Redis."""
    async with TcpProxy(redis_server.port) as proxy:
        yield proxy


async def test_a_subscription_that_went_silent_is_noticed(
    redis_server: RedisServer, proxy: TcpProxy, start_gateway: StartGateway
) -> None:
    """Meanwhile changes are polled; when the network is good again they are heard at once."""
    url = redis_server.url.replace(f":{redis_server.port}/", f":{proxy.port}/")

    def start() -> tuple[Stack, Tenant]:
        stack = start_gateway(redis_server, CONFIG_POLL_S=POLL_S, REDIS_URL=url)
        return stack, provision(stack, org_rpm=1000)

    def blind(stack: Stack, tenant: Tenant) -> None:
        stack.tenants.limit(tenant, rpm=5)
        assert eventually(lambda: limit_of(stack, tenant.agent) == 5, POLLED_S)
        assert eventually(lambda: not hears(stack), 15)

    def healed(stack: Stack, tenant: Tenant) -> None:
        assert eventually(lambda: hears(stack), 10)
        stack.tenants.limit(tenant, rpm=0)
        assert felt(stack, tenant.agent, 429, AT_ONCE_S)

    stack, tenant = await asyncio.to_thread(start)
    proxy.black_hole()
    await asyncio.to_thread(blind, stack, tenant)
    proxy.heal()
    await asyncio.to_thread(healed, stack, tenant)


@pytest.fixture
def own_postgres(start_postgres: StartPostgres) -> PostgresServer:
    """A migrated Postgres of the test's own."""
    server = start_postgres()
    run_apart(lambda: migrate(server.url))
    return server


def test_traffic_flows_on_while_postgres_is_down(
    redis_server: RedisServer, own_postgres: PostgresServer, start_gateway: StartGateway
) -> None:
    """Stopped, then killed: decided by the last snapshot, with a word about it, and recovered."""
    stack = start_gateway(redis_server, DATABASE_URL=own_postgres.url, CONFIG_POLL_S="0.3")
    tenant = provision(stack, org_rpm=1000)

    for outage, break_it in enumerate((own_postgres.stop, own_postgres.kill), 1):
        break_it()
        assert eventually(lambda: stack.gateway.readyz()["config"]["state"] == "stale", 3)
        assert stack.gateway.readyz()["status"] == "degraded"
        assert traffic_is_decided(stack, tenant)

        own_postgres.start()
        stack.tenants.limit(tenant, rpm=1000 + outage)
        assert eventually(partial(is_limited, stack, tenant, 1000 + outage), 5)
        assert eventually(lambda: stack.gateway.readyz()["status"] == "ok", 3)
        assert stack.gateway.log.count("the last ones stay") == outage
    assert "Traceback" not in stack.gateway.log


def test_traffic_flows_on_while_postgres_hangs(
    redis_server: RedisServer, own_postgres: PostgresServer, start_gateway: StartGateway
) -> None:
    """A load that waits for an answer makes no request wait."""
    stack = start_gateway(redis_server, DATABASE_URL=own_postgres.url, CONFIG_POLL_S="0.1")
    tenant = provision(stack, org_rpm=1000)

    own_postgres.freeze()
    time.sleep(0.3)
    assert traffic_is_decided(stack, tenant)

    own_postgres.thaw()
    stack.tenants.limit(tenant, rpm=0)
    assert felt(stack, tenant.agent, 429, AT_ONCE_S)


def is_limited(stack: Stack, tenant: Tenant, rpm: int) -> bool:
    return limit_of(stack, tenant.agent) == rpm


def traffic_is_decided(stack: Stack, tenant: Tenant) -> bool:
    """Whether requests pass without delay, and none of them without a decision."""
    answers = [chat(stack, tenant.agent) for _ in range(20)]
    assert {(answer.status, answer.is_open) for answer in answers} == {(200, False)}
    return max(answer.seconds for answer in answers) < AT_ONCE_S

"""Redis in trouble under traffic: requests are forwarded, it is said, and nothing is lost."""

import asyncio
import json
import statistics
from collections.abc import Callable
from http import HTTPStatus

import pytest
import redis
from counters import Counters
from gateway_stack import StartGateway
from raw_calls import provision
from servers import RedisServer, StartRedis, eventually
from traffic import USED, Answer, chat, command, limiter_state, traffic

from lua import keys

PROMPT_S = 0.8
"""What a request takes at most: less than any wait for Redis itself."""
RECOVERS_S = 2.0
OPENED = "limiter open: requests are admitted without a decision"
CLOSED = "limiter closed: requests are decided again"
PATIENT_MS = "2000"
"""A deadline for tests in which nobody may be admitted open, on a busy machine."""

Act = Callable[[RedisServer], object]

pytestmark = pytest.mark.usefixtures("raw")


def out_of_memory(server: RedisServer) -> None:
    """Writes are refused."""
    command(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    command(server, "CONFIG", "SET", "maxmemory", 1)


def change_password(server: RedisServer) -> None:
    """Nobody is let in any more."""
    command(server, "CONFIG", "SET", "requirepass", "changed")
    with redis.Redis(port=server.port, password="changed") as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def restore_password(server: RedisServer) -> None:
    with redis.Redis(port=server.port, password="changed") as client:
        client.config_set("requirepass", server.url.rpartition("@")[0].rpartition(":")[2])


OUTAGES: dict[str, tuple[Act, Act]] = {
    "stopped": (RedisServer.stop, RedisServer.start),
    "frozen": (RedisServer.freeze, RedisServer.thaw),
    "a read-only replica": (
        lambda server: command(server, "REPLICAOF", "127.0.0.1", 1),
        lambda server: command(server, "REPLICAOF", "NO", "ONE"),
    ),
    "out of memory": (
        out_of_memory,
        lambda server: command(server, "CONFIG", "SET", "maxmemory", 0),
    ),
    "with another password": (change_password, restore_password),
}
LEGS = [
    *(("valkey", outage) for outage in OUTAGES),
    ("redis6", "a read-only replica"),
    ("redis6", "out of memory"),
]


def is_decided(answer: Answer) -> bool:
    return not answer.is_open


@pytest.mark.parametrize(("flavor", "outage"), LEGS)
async def test_traffic_flows_through_an_outage(
    start_redis: StartRedis, start_gateway: StartGateway, flavor: str, outage: str
) -> None:
    """Nobody fails or waits, it is said everywhere, and in the end each request is counted once."""
    breaks, mends = OUTAGES[outage]
    server = await asyncio.to_thread(start_redis, flavor)
    stack = await asyncio.to_thread(start_gateway, server)
    tenant = await asyncio.to_thread(provision, stack, org_rpm=1_000_000, tokens=10**9)

    async with traffic(stack, tenant.agent) as seen:
        await asyncio.to_thread(breaks, server)
        assert await asyncio.to_thread(eventually, lambda: limiter_state(stack) == "open")
        assert (await asyncio.to_thread(stack.gateway.readyz))["status"] == "degraded"
        before = len(seen.answers)
        await seen.until(lambda answer: answer.is_open, count=60)
        during = seen.answers[before:]
        await asyncio.to_thread(mends, server)
        await seen.until(is_decided, RECOVERS_S)
        await seen.until(is_decided, count=40)

    assert seen.failures == []
    assert {answer.status for answer in seen.answers} == {HTTPStatus.OK}
    assert max(answer.seconds for answer in seen.answers) < PROMPT_S
    assert statistics.median(answer.seconds for answer in during) < 0.05
    assert Counters(stack, tenant).settled(USED * len(seen.answers))
    limiter = stack.gateway.readyz()["limiter"]
    assert limiter["admitted_open"] == sum(answer.is_open for answer in seen.answers)
    assert (limiter["broken"], limiter["settlements_lost"]) == (0, 0)
    assert (stack.gateway.log.count(OPENED), stack.gateway.log.count(CLOSED)) == (1, 1)


async def test_a_request_waits_for_the_deadline_and_no_longer(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """The first few behind a server that hangs wait as long as is set; then nobody does."""
    server = await asyncio.to_thread(start_redis)
    stack = await asyncio.to_thread(start_gateway, server, LIMITER_DEADLINE_MS="300")
    tenant = await asyncio.to_thread(provision, stack)
    server.freeze()

    answers = [await asyncio.to_thread(chat, stack, tenant.agent) for _ in range(15)]

    server.thaw()
    assert {(answer.status, answer.is_open) for answer in answers} == {(200, True)}
    waits = [answer.seconds for answer in answers]
    assert 0.28 < waits[0] < PROMPT_S
    assert all(wait < 0.2 for wait in waits[-5:])


async def test_an_open_answer_tells_no_limits(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """There was no decision, so there are no numbers that could be wrong."""
    server = await asyncio.to_thread(start_redis)
    stack = await asyncio.to_thread(start_gateway, server)
    tenant = await asyncio.to_thread(provision, stack, org_rpm=0, tokens=0)
    server.stop()

    answer = await asyncio.to_thread(chat, stack, tenant.agent)

    assert (answer.status, answer.is_open) == (200, True)
    assert [name for name in answer.headers if "ratelimit" in name] == []
    stack.gateway.kill()  # it would try for seconds to settle


@pytest.mark.parametrize("words", [("FLUSHALL",), ("SCRIPT", "FLUSH")])
async def test_lost_data_and_lost_scripts_are_no_outage(
    start_redis: StartRedis, start_gateway: StartGateway, words: tuple[str, ...]
) -> None:
    """Everybody is decided before and after, and nothing stays held."""
    server = await asyncio.to_thread(start_redis)
    stack = await asyncio.to_thread(start_gateway, server, LIMITER_DEADLINE_MS=PATIENT_MS)
    tenant = await asyncio.to_thread(provision, stack, org_rpm=1_000_000, tokens=10**9)

    async with traffic(stack, tenant.agent) as seen:
        for _ in range(3):
            await asyncio.to_thread(command, server, *words)
            await seen.until(is_decided, count=20)

    assert seen.failures == []
    assert {(answer.status, answer.is_open) for answer in seen.answers} == {(200, False)}
    assert eventually(lambda: Counters(stack, tenant).open() == 0)
    assert Counters(stack, tenant).held() == 0
    limiter = stack.gateway.readyz()["limiter"]
    assert (limiter["admitted_open"], limiter["broken"]) == (0, 0)


async def test_a_limit_is_exact_although_scripts_get_lost(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """A cache that is emptied again and again admits nobody twice and denies nobody early."""
    server = await asyncio.to_thread(start_redis)
    stack = await asyncio.to_thread(start_gateway, server, LIMITER_DEADLINE_MS=PATIENT_MS)
    tenant = await asyncio.to_thread(provision, stack, org_rpm=60, tokens=10**9)

    async with traffic(stack, tenant.agent) as seen:
        while sum(answer.status == HTTPStatus.TOO_MANY_REQUESTS for answer in seen.answers) < 10:
            await asyncio.to_thread(command, server, "SCRIPT", "FLUSH")

    assert sum(answer.status == HTTPStatus.OK for answer in seen.answers) == 60
    assert Counters(stack, tenant).settled(60 * USED)


def test_foreign_keys_are_healed_and_are_no_outage(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """The request is decided, the limit holds from then on, and each key is counted apart."""
    server = start_redis()
    stack = start_gateway(server, LIMITER_DEADLINE_MS=PATIENT_MS)
    for number, key in enumerate((keys.org_ring, keys.month_tokens, keys.inflight), 1):
        tenant = provision(stack, org_rpm=3, tokens=10**9)
        command(server, "SET", key(tenant.id), "foreign")

        answers = [chat(stack, tenant.agent) for _ in range(4)]

        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert not any(answer.is_open for answer in answers)
        limiter = stack.gateway.readyz()["limiter"]
        assert (limiter["state"], limiter["admitted_open"]) == ("deciding", 0)
        assert limiter["broken"] == stack.gateway.log.count("replaced") == number


def test_every_line_of_the_log_is_json_and_shows_no_secret(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Also of what the outage looked like from inside."""
    server = start_redis()
    stack = start_gateway(server)
    tenant = provision(stack)
    server.stop()
    assert eventually(lambda: chat(stack, tenant.agent).is_open and limiter_state(stack) == "open")
    server.start()
    assert eventually(lambda: limiter_state(stack) == "deciding")

    lines = [json.loads(line) for line in stack.gateway.log.splitlines()]

    assert {OPENED, CLOSED} <= {line["event"] for line in lines}
    password = server.url.rpartition("@")[0].rpartition(":")[2]
    for secret in (password, tenant.agent.key, "sk-upstream-secret"):
        assert secret not in stack.gateway.log

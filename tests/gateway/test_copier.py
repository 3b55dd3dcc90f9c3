"""The ledger under traffic: what was counted is in Postgres soon, and back in Redis when lost."""

import asyncio
import signal
from datetime import UTC, datetime
from http import HTTPStatus

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway, Tenant
from raw_calls import provision
from servers import StartPostgres, StartRedis, ask, eventually, run_apart
from traffic import USED, chat, command, traffic

from db.migrate import migrate
from lua import keys

PATIENT_MS = "2000"
CLIENTS = 4
WITHIN_S = 10
"""How far the ledger may be behind."""

pytestmark = pytest.mark.usefixtures("raw")


def in_ledger(stack: Stack, tenant: Tenant, column: str, subject_id: str | None = None) -> int:
    """The sum of that column over an agent's minutes, or the organization's."""
    return ask(
        stack.database_url,
        f"SELECT coalesce(sum({column}), 0)::bigint FROM ibex_core.usage_minutes"
        f" WHERE org_id = '{tenant.id}' AND agent_id = '{subject_id or tenant.id}'",
    )


def month_in_ledger(stack: Stack, tenant: Tenant) -> int:
    return ask(
        stack.database_url,
        "SELECT coalesce(sum(tokens), 0)::bigint FROM ibex_core.usage_months"
        f" WHERE org_id = '{tenant.id}'",
    )


def test_traffic_is_in_the_ledger_within_seconds(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Requests, denials and tokens of each agent and of the whole, equal to the limiter's own."""
    stack = start_gateway(start_redis(), LIMITER_DEADLINE_MS=PATIENT_MS)
    tenant = provision(stack, agent_rpm=3, tokens=10**9, agents=2)

    answers = [chat(stack, agent) for agent in tenant.agents for _ in range(5)]

    assert not any(answer.is_open for answer in answers)
    for column, each in (("requests", 3), ("denied", 2), ("tokens", 3 * USED), ("opened", 0)):
        of_agents = {
            agent.id: eventually(
                lambda agent=agent, column=column, each=each: (
                    in_ledger(stack, tenant, column, agent.id) == each
                ),
                WITHIN_S,
            )
            for agent in tenant.agents
        }
        assert of_agents == dict.fromkeys(of_agents, True), column
        assert in_ledger(stack, tenant, column) == 2 * each
    assert month_in_ledger(stack, tenant) == Counters(stack, tenant).tokens() == 6 * USED
    ledger = stack.gateway.readyz()["ledger"]
    assert ledger["state"] == "current"
    assert ledger["lag_s"] < WITHIN_S


async def test_lost_and_older_months_are_raised_under_traffic(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Nobody is admitted open, and what is lost is at most what was on its way in that moment."""
    stack = await asyncio.to_thread(
        start_gateway, await asyncio.to_thread(start_redis), LIMITER_DEADLINE_MS=PATIENT_MS
    )
    tenant = await asyncio.to_thread(provision, stack, org_rpm=1_000_000, tokens=10**9)
    month = f"{datetime.now(UTC):%Y-%m}"

    async with traffic(stack, tenant.agent, CLIENTS) as seen:
        for words in (("FLUSHALL",), ("HSET", keys.month_tokens(tenant.id), month, 1)):
            await seen.until(lambda answer: answer.status == HTTPStatus.OK, count=40)
            await asyncio.to_thread(command, stack.redis, *words)
        await seen.until(lambda answer: answer.status == HTTPStatus.OK, count=40)

    assert seen.failures == []
    assert {(answer.status, answer.is_open) for answer in seen.answers} == {(200, False)}
    counters = Counters(stack, tenant)
    assert eventually(lambda: (counters.held(), counters.open()) == (0, 0))
    truth = USED * len(seen.answers)
    on_their_way = 2 * CLIENTS * USED
    assert eventually(lambda: truth - on_their_way <= counters.tokens() <= truth)
    assert await asyncio.to_thread(
        eventually, lambda: month_in_ledger(stack, tenant) == counters.tokens(), WITHIN_S
    )


def test_a_new_gateway_knows_the_month_from_the_ledger(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Redis and every gateway are gone at once; the ceiling that was reached still denies."""
    server = start_redis()
    before = start_gateway(server, LIMITER_DEADLINE_MS=PATIENT_MS)
    tenant = provision(before, tokens=60)
    assert chat(before, tenant.agent).status == HTTPStatus.OK
    before.tenants.limit(tenant, tokens=USED)
    before.gateway.stop()
    command(server, "FLUSHALL")

    after = start_gateway(server, LIMITER_DEADLINE_MS=PATIENT_MS)
    denied = chat(after, tenant.agent)

    assert (denied.status, denied.headers["ibex-denied-by"]) == (429, "tokens")
    assert month_in_ledger(after, tenant) == USED
    assert eventually(lambda: Counters(after, tenant).tokens() == USED)


def test_the_ledger_waits_for_a_postgres_that_is_away(
    start_redis: StartRedis, start_gateway: StartGateway, start_postgres: StartPostgres
) -> None:
    """Traffic goes on, it is said once, and nothing of that time is missing afterwards."""
    postgres = start_postgres()
    with postgres.database() as url:
        run_apart(lambda: migrate(url))
        stack = start_gateway(start_redis(), LIMITER_DEADLINE_MS=PATIENT_MS, DATABASE_URL=url)
        tenant = provision(stack, tokens=10**9)
        chat(stack, tenant.agent)
        postgres.stop()
        assert eventually(lambda: stack.gateway.readyz()["ledger"]["state"] == "behind", 20)
        answers = [chat(stack, tenant.agent) for _ in range(4)]
        assert stack.gateway.readyz()["status"] == "degraded"
        assert stack.gateway.readyz()["postgres"] == {"state": "failing"}
        postgres.start()

        assert eventually(lambda: stack.gateway.readyz()["ledger"]["state"] == "current", 20)

        assert {(answer.status, answer.is_open) for answer in answers} == {(200, False)}
        assert in_ledger(stack, tenant, "tokens", tenant.agent.id) == 5 * USED
        assert month_in_ledger(stack, tenant) == 5 * USED
        assert stack.gateway.log.count("the ledger is behind") == 1
        assert stack.gateway.log.count("the ledger is complete again") == 1
        stack.gateway.stop()


def test_a_frozen_postgres_does_not_hold_back_the_end(
    start_redis: StartRedis, start_gateway: StartGateway, start_postgres: StartPostgres
) -> None:
    """What could not be copied is in Redis still; the process ends in time."""
    postgres = start_postgres()
    with postgres.database() as url:
        run_apart(lambda: migrate(url))
        stack = start_gateway(start_redis(), LIMITER_DEADLINE_MS=PATIENT_MS, DATABASE_URL=url)
        tenant = provision(stack, tokens=10**9)
        chat(stack, tenant.agent)

        with postgres.frozen():
            stack.gateway.terminate()
            code = stack.gateway.wait(15)

        assert code in {0, -signal.SIGTERM}
        assert Counters(stack, tenant).settled(USED)

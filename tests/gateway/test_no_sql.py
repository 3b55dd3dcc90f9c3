"""No request waits for Postgres: none of them makes the gateway ask it anything."""

import asyncio
from collections import Counter
from collections.abc import Callable

import asyncpg
import pytest
from gateway_stack import Agent, StartGateway
from raw_calls import provision
from servers import PostgresServer, RedisServer, eventually, run_apart
from traffic import chats

from gateway.cli.dev_processes import Address

NEVER_S = "3600"
BOGUS = Agent("", "ibex_agt_0000000000000000000000000000000000000000000")
SECONDS_OF_SILENCE = 0.3


@pytest.fixture
def statements(postgres_server: PostgresServer, database_url: str) -> Callable[[], int]:
    """How many statements the server has executed for sessions of this test's database."""
    log = postgres_server.home / "postgres.log"
    name = database_url.rpartition("/")[2]

    async def log_all() -> None:
        connection = await asyncpg.connect(postgres_server.url)
        await connection.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")
        await connection.close()

    run_apart(log_all)
    start = len(log.read_bytes())

    def count() -> int:
        text = log.read_bytes()[start:]
        return text.count(b"LOG:  execute ") + text.count(b"LOG:  statement: ")

    return count


@pytest.mark.usefixtures("raw")
async def test_traffic_executes_no_sql(
    redis_server: RedisServer, start_gateway: StartGateway, statements: Callable[[], int]
) -> None:
    """Admitted, denied, turned away, streamed, asked for limits: Postgres hears nothing of it."""
    stack = await asyncio.to_thread(start_gateway, redis_server, CONFIG_POLL_S=NEVER_S)
    tenant = await asyncio.to_thread(provision, stack, org_rpm=100, agents=2)
    first, second = tenant.agents
    address = Address("127.0.0.1", stack.gateway.port)
    await asyncio.sleep(SECONDS_OF_SILENCE)
    before = statements()
    assert before > 0

    answers = [
        *await chats(stack, first, 50),
        *await chats(stack, second, 50, stream=True),
        *await chats(stack, first, 60),
        *await chats(stack, BOGUS, 40),
    ]
    for path in ("/healthz", "/readyz"):
        assert address.answers(path)
    assert stack.gateway.get("/limits", first.bearer)[0] == 200
    await asyncio.sleep(SECONDS_OF_SILENCE)

    assert Counter(answer.status for answer in answers) == {200: 100, 429: 60, 401: 40}
    assert statements() == before

    await asyncio.to_thread(stack.tenants.limit, tenant, rpm=1)
    assert eventually(lambda: statements() > before)

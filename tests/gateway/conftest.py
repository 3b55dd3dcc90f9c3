"""A running gateway with its upstreams, and tenants to use it.

The session's gateway is shared: every test provisions an organization of its own. Whatever a test
does with it, nothing may have been admitted open.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from config_world import World
from gateway_process import GatewayProcess
from gateway_stack import Stack, StartGateway, Tenants
from raw_upstream import RawUpstream
from servers import PostgresServer, RedisServer, eventually, run_apart

from db.migrate import migrate
from db.repository import connect
from gateway.cli.dev_processes import Address
from gateway.embedded import free_port
from lua import connection
from lua.connection import RedisAddress


@pytest.fixture
def tell(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Says a figure in the run's own output, whether the test passes or not."""

    def say(figure: str) -> None:
        with capfd.disabled():
            print(f"\n{figure}")  # noqa: T201 - the figures are what such a test is for

    return say


@pytest.fixture(scope="session")
def llmock_url(servers_home: Path) -> Iterator[str]:
    """A provider that nobody here wrote: OpenAI's API at its root, Anthropic's at /anthropic."""
    address = Address("127.0.0.1", free_port())
    command = [sys.executable, "-m", "llmock.cli", "serve", f"--port={address.port}"]
    with (servers_home / "llmock.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host=127.0.0.1", "--log-level=warning"], stdout=log, stderr=log
        )
    try:
        assert eventually(lambda: address.answers("/health"), 60)
        yield address.url
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def _raw_upstream() -> Iterator[RawUpstream]:
    with RawUpstream() as upstream:
        yield upstream


@pytest.fixture
def raw(_raw_upstream: RawUpstream) -> RawUpstream:
    """The byte-controlled upstream behind /raw (OpenAI) and /claude (Anthropic), reset."""
    _raw_upstream.reset()
    return _raw_upstream


@pytest.fixture(scope="session")
def upstream_env(llmock_url: str, _raw_upstream: RawUpstream) -> dict[str, str]:
    """Upstreams of every kind: mocks, bytes, needing no key, unreachable."""
    return {
        "UPSTREAM_OPENAI_URL": llmock_url,
        "UPSTREAM_OPENAI_KEY": "sk-upstream-secret",
        "UPSTREAM_ANTHROPIC_URL": f"{llmock_url}/anthropic",
        "UPSTREAM_ANTHROPIC_KEY": "sk-upstream-secret",
        "UPSTREAM_RAW_URL": f"{_raw_upstream.url}/base",
        "UPSTREAM_RAW_KEY": "sk-upstream-secret",
        "UPSTREAM_CLAUDE_URL": _raw_upstream.url,
        "UPSTREAM_CLAUDE_KEY": "sk-upstream-secret",
        "UPSTREAM_CLAUDE_DIALECT": "anthropic",
        "UPSTREAM_PLAIN_URL": _raw_upstream.url,
        "UPSTREAM_PLAIN_KEY": "sk-upstream-secret",
        "UPSTREAM_PLAIN_STREAM_USAGE": "false",
        "UPSTREAM_FREE_URL": _raw_upstream.url,
        "UPSTREAM_FREE_KEY": "",
        "UPSTREAM_DEAD_URL": f"http://127.0.0.1:{free_port()}",
        "UPSTREAM_DEAD_KEY": "sk-upstream-secret",
    }


@pytest.fixture(scope="session")
def _stack(
    servers_home: Path, postgres_server: PostgresServer, upstream_env: dict[str, str]
) -> Iterator[Stack]:
    with ExitStack() as stack:
        redis_server = RedisServer(servers_home / "gateway-valkey")
        stack.callback(redis_server.stop)
        redis_server.start()
        database_url = stack.enter_context(postgres_server.database())
        run_apart(lambda: migrate(database_url))
        env = {
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_server.url,
            "LIMITER_DEADLINE_MS": "5000",  # a busy machine is not an outage
            "UPSTREAM_IDLE_TIMEOUT_S": "2",
            "REQUEST_MAX_BYTES": "20000000",
            **upstream_env,
            "UPSTREAM_UNKEYED_URL": upstream_env["UPSTREAM_FREE_URL"],
        }
        gateway = GatewayProcess(servers_home / "gateway.log", env)
        stack.callback(gateway.stop)
        yield Stack(gateway, redis_server, Tenants(database_url, redis_server.url), database_url)


@pytest.fixture
def stack(_stack: Stack) -> Iterator[Stack]:
    """The session's gateway. Nothing is admitted open, everything is settled, nothing is lost."""
    seen = len(_stack.gateway.log)
    yield _stack
    assert eventually(lambda: _stack.gateway.readyz()["open_requests"] == 0)
    assert eventually(lambda: _stack.gateway.readyz()["limiter"]["unsettled"] == 0)
    limiter = _stack.gateway.readyz()["limiter"]
    assert (limiter["admitted_open"], limiter["broken"], limiter["settlements_lost"]) == (0, 0, 0)
    assert "internal error" not in _stack.gateway.log[seen:]


@pytest.fixture
def start_gateway(
    tmp_path: Path, upstream_env: dict[str, str], database_url: str
) -> Iterator[StartGateway]:
    """`start_gateway(redis_server, *options, **env)`: one of the test's own, on a new database.

    `database_url` in env replaces that one; `wait=False` does not wait until it is ready.
    """
    with ExitStack() as exits:

        def start(redis_server: RedisServer, *options: str, wait: bool = True, **env: str) -> Stack:
            url = env.pop("DATABASE_URL", database_url)
            run_apart(lambda: migrate(database_url))
            number = len(list(tmp_path.glob("gateway-*.log")))
            process = GatewayProcess(
                tmp_path / f"gateway-{number}.log",
                {"DATABASE_URL": url, "REDIS_URL": redis_server.url, **upstream_env, **env},
                *options,
                wait=wait,
            )
            exits.callback(process.stop)
            return Stack(process, redis_server, Tenants(url, redis_server.url), url)

        yield start


@pytest.fixture
async def world(database_url: str, redis_url: str) -> AsyncIterator[World]:
    """A migrated database and an empty Valkey."""
    await migrate(database_url)
    pool = await connect(database_url, min_size=1, max_size=4)
    redis = connection.connect(RedisAddress(redis_url), timeout_s=5)
    yield World(pool, redis)
    await redis.aclose()
    await pool.close()

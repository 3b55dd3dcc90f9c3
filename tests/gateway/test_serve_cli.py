"""How `ibex serve` starts: with what can get better by itself, not with what cannot."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_stack import Stack, StartGateway
from raw_calls import provision
from servers import PostgresServer, RedisServer, StartRedis, eventually
from traffic import REDIS_DOWN, chat, limiter_state

from gateway.embedded import free_port

SECRET = "hunter2"
POLL_S = "0.2"
"""Where nobody can be told of a new key."""
NOWHERE = f"postgres://ibex:{SECRET}@127.0.0.1:1/db"

pytestmark = pytest.mark.usefixtures("raw")


def fails(stack: Stack) -> str:
    """What a start that must fail says: one line with the exit code 1, and no secret."""
    assert stack.gateway.wait(20) == 1, stack.gateway.log
    log = stack.gateway.log
    assert log.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in log
    assert SECRET not in log
    return log


def decides_soon(stack: Stack, seconds: float = 2.0) -> bool:
    """Whether the limiter comes to decide in time."""
    return eventually(lambda: limiter_state(stack) == "deciding", seconds)


def test_without_redis_it_starts_and_says_so(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """Requests are forwarded; when Redis comes up limits hold within two seconds."""
    server = start_redis()
    server.stop()
    stack = start_gateway(server, CONFIG_POLL_S=POLL_S)
    tenant = provision(stack, org_rpm=0)

    answer = chat(stack, tenant.agent)

    assert (answer.status, answer.is_open) == (200, True)
    assert limiter_state(stack) == "open"
    assert stack.gateway.readyz()["limiter"]["admitted_open"] == 1
    assert stack.gateway.log.count(REDIS_DOWN) == 1
    server.start()
    assert decides_soon(stack)
    assert chat(stack, tenant.agent).status == 429
    assert eventually(lambda: stack.gateway.readyz()["config"]["changes_heard"], 3)


def test_with_a_frozen_redis_it_starts_in_time(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """A server that accepts and never answers holds the start back for a few seconds only."""
    server = start_redis()
    server.freeze()
    before = time.monotonic()
    stack = start_gateway(server)
    took = time.monotonic() - before

    server.thaw()

    assert took < 10
    assert stack.gateway.log.count(REDIS_DOWN) == 1
    assert decides_soon(stack)


def test_a_wrong_password_for_redis_is_told_without_it(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """It serves without limits, and everything that is shown says so."""
    server = start_redis()
    url = f"redis://:{SECRET}@127.0.0.1:{server.port}/0"
    stack = start_gateway(server, REDIS_URL=url, CONFIG_POLL_S=POLL_S)
    tenant = provision(stack)

    assert chat(stack, tenant.agent).is_open
    assert limiter_state(stack) == "open"
    assert stack.gateway.readyz()["status"] == "degraded"
    assert stack.gateway.log.count(REDIS_DOWN) == 1
    assert SECRET not in stack.gateway.log
    stack.gateway.kill()  # it would try for seconds to settle


def test_without_postgres_it_does_not_start(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """It would know no key; the message names the server and not the password."""
    stack = start_gateway(redis_server, wait=False, DATABASE_URL=NOWHERE)

    assert "Postgres is not available" in fails(stack)


def test_a_database_that_is_not_up_to_date_names_the_command(
    redis_server: RedisServer, postgres_server: PostgresServer, start_gateway: StartGateway
) -> None:
    """Serving changes no schema: that is for the operator to decide."""
    with postgres_server.database() as empty:
        stack = start_gateway(redis_server, wait=False, DATABASE_URL=empty)

        assert "run `ibex migrate`" in fails(stack)


@pytest.mark.parametrize("variable", ["DATABASE_URL", "REDIS_URL"])
def test_a_server_that_is_not_named_is_asked_for(
    redis_server: RedisServer, start_gateway: StartGateway, variable: str
) -> None:
    """By the variable that names it."""
    stack = start_gateway(redis_server, wait=False, **{variable: ""})

    assert f"{variable} is not set" in fails(stack)


@pytest.fixture
def cluster_url(start_redis: StartRedis, tmp_path: Path) -> Iterator[str]:
    """A Valkey that is one node of a cluster."""
    binary = start_redis()._server._binary  # type: ignore[union-attr]  # the one with a binary
    port = free_port()
    with (tmp_path / "cluster.log").open("wb") as log:
        process = subprocess.Popen(
            [str(binary), "--port", str(port), "--cluster-enabled", "yes", "--save", ""],
            cwd=tmp_path,
            stdout=log,
        )
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(10)


def test_a_cluster_is_refused(
    redis_server: RedisServer, start_gateway: StartGateway, cluster_url: str
) -> None:
    """Its slots cannot hold the platform's key beside every organization's."""
    time.sleep(0.5)
    stack = start_gateway(redis_server, wait=False, REDIS_URL=cluster_url)

    assert "REDIS_URL names a Redis Cluster" in fails(stack)


def test_a_port_that_is_taken_is_an_error(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """The process ends with an exit code that is not 0, so that whoever started it knows."""
    first = start_gateway(redis_server)

    second = start_gateway(redis_server, "--port", str(first.gateway.port), wait=False)

    assert second.gateway.wait(20) != 0
    assert str(first.gateway.port) in second.gateway.log


def test_help_says_what_it_does() -> None:
    """Every option is explained."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve", "--help"],
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.returncode == 0
    for option in ("--host", "--port", "--workers"):
        assert option in done.stdout

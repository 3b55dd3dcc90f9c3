"""What /readyz tells of outages, of settings, and of the end."""

import socket
from contextlib import ExitStack

import pytest
from gateway_process import GatewayProcess
from gateway_stack import Stack, StartGateway
from raw_client import RawClient
from servers import RedisServer, StartPostgres, eventually, run_apart

from db.migrate import migrate

PATIENT_MS = "2000"
HEAD = (
    b"GET /readyz HTTP/1.1\r\nHost: ibex.test\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_from_sigterm_on_it_is_not_ready(
    redis_server: RedisServer, start_gateway: StartGateway, workers: str
) -> None:
    """Whoever asks until the end is told 503; what had begun before is answered."""
    stack = start_gateway(redis_server, "--workers", workers)
    assert eventually(lambda: stack.gateway.log.count("gateway ready") == int(workers))
    with ExitStack() as clients:
        asking = [clients.enter_context(RawClient(stack.gateway.port)) for _ in range(4)]
        for client in asking:
            client.send(HEAD)
            assert client.head().status == 100
        status, told = stack.gateway.get("/readyz")
        assert (status, told["status"]) == (200, "ok")

        stack.gateway.terminate()
        assert eventually(lambda: not is_listening(stack.gateway))
        for client in asking:
            client.send(b"x")
            answer = client.answer()

            assert (answer.status, answer.json()["status"]) == (503, "draining")
    assert stack.gateway.wait() == 0


def is_listening(gateway: GatewayProcess) -> bool:
    """Whether it takes new connections."""
    try:
        socket.create_connection(("127.0.0.1", gateway.port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("env", "unkeyed", "status"),
    [
        ({"UPSTREAM_ANTHROPIC_URL": ""}, ["anthropic", "openai"], "ok"),
        ({"UPSTREAM_MINE_URL": "http://127.0.0.1:9"}, ["anthropic", "mine", "openai"], "degraded"),
        ({"UPSTREAM_OPENAI_URL": "http://127.0.0.1:9"}, ["anthropic", "openai"], "degraded"),
    ],
)
def test_upstreams_without_a_key_are_told(
    redis_server: RedisServer,
    database_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    env: dict[str, str],
    unkeyed: list[str],
    status: str,
) -> None:
    """It is degraded by one that somebody has set up, not by those that come with it."""
    run_apart(lambda: migrate(database_url))
    servers = {"DATABASE_URL": database_url, "REDIS_URL": redis_server.url}
    log = tmp_path_factory.mktemp("readiness") / "gateway.log"
    gateway = GatewayProcess(log, {**servers, **env, "LIMITER_DEADLINE_MS": PATIENT_MS})
    try:
        told = gateway.readyz()
    finally:
        gateway.stop()

    assert (told["upstreams"], told["status"]) == ({"unkeyed": unkeyed}, status)


def test_a_postgres_that_fails_is_told_without_asking_it(
    redis_server: RedisServer, start_gateway: StartGateway, start_postgres: StartPostgres
) -> None:
    """It is known from the loads that fail; the age of what was loaded grows."""
    postgres = start_postgres()
    run_apart(lambda: migrate(postgres.url))
    stack = start_gateway(
        redis_server,
        DATABASE_URL=postgres.url,
        CONFIG_POLL_S="0.3",
        LIMITER_DEADLINE_MS=PATIENT_MS,
    )
    assert part(stack, "postgres") == "ok"

    postgres.stop()
    assert eventually(lambda: part(stack, "postgres") == "failing", 10)
    told = stack.gateway.readyz()
    assert (told["status"], told["config"]["state"]) == ("degraded", "stale")
    assert eventually(lambda: stack.gateway.readyz()["config"]["age_s"] > 1)

    postgres.start()
    assert eventually(lambda: part(stack, "postgres") == "ok", 20)
    assert eventually(lambda: stack.gateway.readyz()["config"]["age_s"] < 1, 20)


def part(stack: Stack, name: str) -> str:
    """The state of one part."""
    return str(stack.gateway.readyz()[name]["state"])

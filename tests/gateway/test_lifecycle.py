"""How a gateway ends: in order, in time, and with everything counted that was used."""

import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from counters import Counters
from gateway_stack import Agent, Stack, StartGateway, Tenant
from raw_calls import provision
from raw_upstream import JSON_ANSWER, Peer, RawUpstream
from sanic import Sanic
from servers import RedisServer, StartPostgres, StartRedis, eventually, run_apart
from traffic import HELD, USED, Opened, ask, chat

from db.migrate import migrate
from gateway.app import create_app
from gateway.settings import Settings

EVENT = b'data: {"choices":[{"delta":{"content":"some words of an answer"}}]}\n\n'
LAST = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
DONE = b"data: [DONE]\n\n"


@dataclass
class Stalling:
    """Streams that begin, and end when `go_on` is set."""

    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(EVENT)
        self.go_on.wait(30)
        peer.chunk(EVENT, LAST, DONE)
        peer.end_stream()


@pytest.fixture
def stalling(raw: RawUpstream) -> Iterator[Stalling]:
    """What the raw upstream does; whatever stalls at the end of the test goes on."""
    raw.script = script = Stalling()
    yield script
    script.go_on.set()


@contextmanager
def streams(stack: Stack, agent: Agent, count: int) -> Iterator[list[Opened]]:
    """That many streams under way."""
    opened = [ask(stack, agent, stream=True) for _ in range(count)]
    try:
        assert [it.response.status for it in opened] == [200] * count
        yield opened
    finally:
        for it in opened:
            it.close()


def refuses(stack: Stack) -> bool:
    """Whether nobody listens any more."""
    try:
        socket.create_connection(("127.0.0.1", stack.gateway.port), 1).close()
    except OSError:
        return True
    return False


def numbers(stack: Stack, tenant: Tenant) -> tuple[int, int, int]:
    """Tokens used, tokens held, and open reservations."""
    counters = Counters(stack, tenant)
    return counters.tokens(), counters.held(), counters.open()


@contextmanager
def ends_within(stack: Stack, seconds: float) -> Iterator[None]:
    """The block ends the gateway, which then exits in time with code 0."""
    before = time.monotonic()
    yield
    assert stack.gateway.wait(seconds) == 0, stack.gateway.log
    assert time.monotonic() - before < seconds
    assert "Traceback" not in stack.gateway.log


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_open_streams_end_before_it_does(
    redis_server: RedisServer,
    start_gateway: StartGateway,
    stalling: Stalling,
    signal_number: signal.Signals,
) -> None:
    """Nobody new is let in, whoever is in gets his whole answer, and all of it is counted."""
    stack = start_gateway(redis_server)
    tenant = provision(stack, tokens=100_000)

    with streams(stack, tenant.agent, 3) as opened, ends_within(stack, 5):
        os.kill(stack.gateway.pid, signal_number)
        assert eventually(lambda: refuses(stack), 2)
        assert stack.gateway.running
        assert Counters(stack, tenant).open() == 3
        stalling.go_on.set()
        for answer in opened:
            assert answer.read() == EVENT + EVENT + DONE

    assert numbers(stack, tenant) == (3 * USED, 0, 0)


def test_what_does_not_end_is_cut_at_the_grace(
    redis_server: RedisServer, start_gateway: StartGateway, stalling: Stalling
) -> None:
    """Clients see a broken answer, not a clean end; what they have got so far is counted."""
    stack = start_gateway(redis_server, SHUTDOWN_GRACE_S="1")
    tenant = provision(stack, tokens=100_000)

    with streams(stack, tenant.agent, 3) as opened:
        with ends_within(stack, 5):
            stack.gateway.terminate()
        for answer in opened:
            with pytest.raises((http.client.IncompleteRead, OSError)):
                answer.read()

    used, *open_ones = numbers(stack, tenant)
    assert 0 < used < 3 * HELD
    assert open_ones == [0, 0]
    assert not stalling.go_on.is_set()


def test_a_request_without_an_answer_yet_is_settled_at_the_grace(
    redis_server: RedisServer, start_gateway: StartGateway, raw: RawUpstream
) -> None:
    """Its prompt is with the provider: that is charged, and nothing stays held."""
    release = threading.Event()

    def think(_: Peer) -> None:
        release.wait(30)

    raw.script = think
    stack = start_gateway(redis_server, SHUTDOWN_GRACE_S="0.5")
    tenant = provision(stack, tokens=100_000)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(chat, stack, tenant.agent)
        assert eventually(lambda: Counters(stack, tenant).open() == 1)

        with ends_within(stack, 5):
            stack.gateway.terminate()

        assert isinstance(asked.exception(), http.client.HTTPException | OSError)
        release.set()
    used, *open_ones = numbers(stack, tenant)
    assert 0 < used < HELD
    assert open_ones == [0, 0]


def test_a_second_signal_loses_nothing(
    redis_server: RedisServer, start_gateway: StartGateway, stalling: Stalling
) -> None:
    """An impatient operator may cut streams short, but what was used is counted."""
    stack = start_gateway(redis_server, SHUTDOWN_GRACE_S="1.5")
    tenant = provision(stack, tokens=100_000)

    with streams(stack, tenant.agent, 3), ends_within(stack, 8):
        stack.gateway.terminate()
        assert eventually(lambda: refuses(stack), 2)
        stack.gateway.terminate()

    used, *open_ones = numbers(stack, tenant)
    assert used > 0
    assert open_ones == [0, 0]
    assert not stalling.go_on.is_set()


@pytest.mark.usefixtures("stalling")
def test_a_killed_gateway_holds_tokens_until_its_leases_lapse(
    redis_server: RedisServer, start_gateway: StartGateway, raw: RawUpstream
) -> None:
    """Nobody settles for it; another gateway gets the tokens back when its leases have ended."""
    lease = {"RESERVATION_LEASE_S": "2"}
    stack, other = (start_gateway(redis_server, **lease) for _ in range(2))
    tenant = provision(stack, tokens=2 * HELD)

    with streams(stack, tenant.agent, 1):
        stack.gateway.kill()
        denied = chat(other, tenant.agent)
    raw.script = Peer.json

    assert (denied.status, denied.headers["ibex-denied-by"]) == (429, "tokens")
    assert eventually(lambda: chat(other, tenant.agent).status == 200, 4)
    assert eventually(lambda: numbers(other, tenant) == (USED, 0, 0))


@pytest.mark.usefixtures("stalling")
def test_settlings_that_redis_does_not_take_are_told_to_be_lost(
    start_redis: StartRedis, start_gateway: StartGateway
) -> None:
    """It exits in time although Redis hangs, and says how many settlings that has cost."""
    server = start_redis()
    stack = start_gateway(server, SHUTDOWN_GRACE_S="0.5")
    tenant = provision(stack, tokens=100_000)

    with streams(stack, tenant.agent, 3), ends_within(stack, 10):
        server.freeze()
        stack.gateway.terminate()

    (line,) = [line for line in stack.gateway.log.splitlines() if "settlements lost" in line]
    assert json.loads(line)["count"] == 3
    server.thaw()


@pytest.mark.usefixtures("raw")
def test_a_hanging_database_does_not_hold_it_back(
    redis_server: RedisServer, start_postgres: StartPostgres, start_gateway: StartGateway
) -> None:
    """It exits in time in the middle of a load that Postgres does not answer."""
    server = start_postgres()
    run_apart(lambda: migrate(server.url))
    stack = start_gateway(redis_server, DATABASE_URL=server.url, CONFIG_POLL_S="0.2")
    tenant = provision(stack)
    server.freeze()
    time.sleep(0.5)

    assert chat(stack, tenant.agent).status == 200
    with ends_within(stack, 10):
        stack.gateway.terminate()

    server.thaw()


def test_long_answers_are_not_cut(stack: Stack, raw: RawUpstream) -> None:
    """Neither a stream nor an answer in one piece has a time limit but the upstream's silence.

    That limit is 2 s here.
    """
    tenant = provision(stack)

    def slow(peer: Peer) -> None:
        if b'"stream"' in peer.received.body:
            peer.start_stream()
            peer.chunk(*[EVENT] * 4, LAST, DONE, every_s=1)
            peer.end_stream()
        else:
            time.sleep(1.5)
            peer.json()

    raw.script = slow
    with ThreadPoolExecutor(2) as pool:
        stream = pool.submit(chat, stack, tenant.agent, stream=True)
        whole = pool.submit(chat, stack, tenant.agent)

    assert whole.result().body == JSON_ANSWER
    assert stream.result().body == EVENT * 4 + DONE
    assert stream.result().seconds > 5


@pytest.mark.parametrize(("connect_s", "idle_s"), [("1", "1"), ("10", "900"), ("60", "86400")])
def test_the_server_waits_longer_for_an_answer_than_the_upstream_may_be_silent(
    connect_s: str, idle_s: str
) -> None:
    """Whatever is set, it is the upstream's silence that ends a request, which says so."""
    settings = Settings.from_env(
        {"UPSTREAM_CONNECT_TIMEOUT_S": connect_s, "UPSTREAM_IDLE_TIMEOUT_S": idle_s}
    )

    app = create_app(settings)

    Sanic.unregister_app(app)
    assert float(connect_s) + float(idle_s) < app.config.RESPONSE_TIMEOUT

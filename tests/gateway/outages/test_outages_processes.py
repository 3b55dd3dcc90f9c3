"""Processes that end while agents ask: what a kill costs, and that an orderly end costs nothing."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway, Tenant
from outage_leg import IN_FLIGHT
from outage_rig import MOST_STATED, Background, Provider
from processes import descendants
from raw_calls import provision
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, StartRedis, eventually
from steady_load import CLIENTS, SteadyLoad
from traffic import USED, ask, chat

PATIENT_MS = "2000"
OLD_ENOUGH_S = 5.0
"""Whoever dies after so long did not die of its start."""
STREAMS = 200
READY = "gateway ready"
EVENT = b'data: {"choices":[{"delta":{"content":"some words"}}]}\n\n'
LAST = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'

Tell = Callable[[str], None]


@pytest.fixture
def background() -> Iterator[Background]:
    """Where clients run."""
    background = Background()
    yield background
    background.close()


@pytest.fixture
def provider(raw: RawUpstream) -> Provider:
    """What the raw upstream does: it adds up what it states."""
    raw.script = script = Provider()
    return script


def enough(load: SteadyLoad, count: int) -> bool:
    """Whether so many more are answered."""
    at = len(load.seen)
    return eventually(lambda: len(load.seen) >= at + count, 20)


def lost_tokens(stack: Stack, tenant: Tenant, provider: Provider) -> int:
    """What was stated and is not counted, when nothing moves any more."""
    counters = Counters(stack, tenant)
    eventually(lambda: counters.tokens() >= provider.stated, 1.5)
    return provider.stated - counters.tokens()


def test_a_killed_worker_loses_no_more_than_was_on_its_way(
    redis_server: RedisServer,
    start_gateway: StartGateway,
    provider: Provider,
    background: Background,
    tell: Tell,
) -> None:
    """Requests open in it break off, the other one serves on, and what it held lapses."""
    stack = start_gateway(
        redis_server, WEB_CONCURRENCY="2", LIMITER_DEADLINE_MS=PATIENT_MS, RESERVATION_LEASE_S="2"
    )
    assert eventually(lambda: stack.gateway.log.count(READY) == 2)
    old_enough = time.monotonic() + OLD_ENOUGH_S
    tenant = provision(stack, org_rpm=1_000_000, tokens=10**9, agents=2)
    load = SteadyLoad(lambda: stack.gateway.port, tenant.agents)
    running = background.begin(load.run())
    assert eventually(lambda: time.monotonic() > old_enough)

    os.kill(descendants(stack.gateway.pid)[0], signal.SIGKILL)

    assert eventually(lambda: stack.gateway.log.count(READY) == 3, 20)
    assert enough(load, 50)
    load.end()
    assert eventually(running.done, 20)
    failed = [one for one in load.seen if one.status != HTTPStatus.OK]
    assert {one.status for one in failed} <= {0}
    assert len(failed) <= CLIENTS
    assert not any(one.is_open for one in load.seen)
    lost = lost_tokens(stack, tenant, provider)
    tell(f"killed worker: {len(failed)} of {len(load.seen)} broke off, {lost} tokens lost")
    assert 0 <= lost <= IN_FLIGHT * MOST_STATED
    time.sleep(2)  # until the leases of what it held have ended
    assert chat(stack, tenant.agent).status == HTTPStatus.OK
    counters = Counters(stack, tenant)
    assert eventually(lambda: (counters.held(), counters.open()) == (0, 0))


def test_what_waits_for_redis_is_lost_with_its_worker_and_nothing_else(
    start_redis: StartRedis, start_gateway: StartGateway, raw: RawUpstream
) -> None:
    """The bound of what a kill can lose: the settlements that it says are unsettled."""
    server = start_redis()
    stack = start_gateway(server, LIMITER_DEADLINE_MS=PATIENT_MS)
    tenant = provision(stack, tokens=10**9)
    counters = Counters(stack, tenant)
    assert [chat(stack, tenant.agent).status for _ in range(10)] == [200] * 10
    assert counters.settled(10 * USED)
    server.stop()
    assert {chat(stack, tenant.agent).status for _ in range(30)} == {200}
    assert len(raw.requests) == 40
    assert eventually(lambda: stack.gateway.readyz()["limiter"]["unsettled"] == 30)

    stack.gateway.kill()
    server.start()
    after = start_gateway(server, LIMITER_DEADLINE_MS=PATIENT_MS)

    answer = chat(after, tenant.agent)
    assert (answer.status, answer.is_open) == (200, False)
    assert counters.settled(11 * USED)


def test_sigterm_with_200_open_streams_loses_nothing(
    redis_server: RedisServer, start_gateway: StartGateway, raw: RawUpstream
) -> None:
    """Each of them goes on to its end, and is counted, before the process ends."""
    go_on = threading.Event()

    def stall(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(EVENT)
        go_on.wait(30)
        peer.chunk(EVENT, LAST)
        peer.end_stream()

    raw.script = stall
    stack = start_gateway(redis_server, LIMITER_DEADLINE_MS=PATIENT_MS)
    tenant = provision(stack, tokens=10**9)
    opened = [ask(stack, tenant.agent, stream=True) for _ in range(STREAMS)]
    assert Counters(stack, tenant).open() == STREAMS

    stack.gateway.terminate()
    time.sleep(0.3)
    go_on.set()
    answers = [it.read() for it in opened]

    assert answers == [EVENT + EVENT] * STREAMS
    assert stack.gateway.wait(25) == 0
    counters = Counters(stack, tenant)
    assert (counters.tokens(), counters.held(), counters.open()) == (STREAMS * USED, 0, 0)
    assert {it.response.getheader("Ibex-Limiter") for it in opened} == {None}


def test_a_deploy_side_by_side_is_not_noticed(
    redis_server: RedisServer,
    start_gateway: StartGateway,
    provider: Provider,
    background: Background,
    tell: Tell,
) -> None:
    """Two gateways on one Redis decide by the same numbers; the old one ends under traffic."""
    old = start_gateway(redis_server, LIMITER_DEADLINE_MS=PATIENT_MS)
    tenant = provision(old, org_rpm=1_000_000, tokens=10**9)
    limited = provision(old, org_rpm=60, tokens=10**9)
    router = [old.gateway.port]
    turns = iter(range(10**9))
    loads = [
        SteadyLoad(lambda: router[next(turns) % len(router)], it.agents, repeats=True)
        for it in (tenant, limited)
    ]
    running = [background.begin(load.run()) for load in loads]
    assert enough(loads[0], 30)

    new = start_gateway(redis_server, LIMITER_DEADLINE_MS=PATIENT_MS)
    router.append(new.gateway.port)
    assert enough(loads[0], 30)
    router.remove(old.gateway.port)
    old.gateway.terminate()
    assert old.gateway.wait() == 0
    assert enough(loads[0], 30)

    for load in loads:
        load.end()
    assert eventually(lambda: all(it.done() for it in running), 20)
    free, bound = loads
    assert {one.status for one in free.seen} == {200}
    assert not any(one.is_open for load in loads for one in load.seen)
    assert [one.status for one in bound.seen].count(200) == 60
    assert {one.status for one in bound.seen} == {200, 429}
    assert eventually(lambda: Counters(new, tenant).open() == Counters(new, limited).open() == 0)
    stated = Counters(new, tenant).tokens() + Counters(new, limited).tokens()
    tell(f"deploy: 0 of {len(free.seen)} failed, {provider.stated - stated} tokens lost")
    assert stated == provider.stated

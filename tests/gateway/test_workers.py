"""Several workers behind one port: one set of limits, one life."""

import asyncio
import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway
from processes import alive, descendants
from raw_calls import provision
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, eventually
from traffic import USED, chat, chats

CERTAINLY_BOTH = 20
"""So many connections in a row reach each of two workers."""
READY = "gateway ready"
OLD_ENOUGH_S = 5
"""Whoever dies after so long did not die of its start."""


@pytest.fixture
def stack(redis_server: RedisServer, start_gateway: StartGateway, raw: RawUpstream) -> Stack:
    """A gateway of two workers, both of them ready; the raw upstream is reset."""
    assert raw.requests == []
    return both_ready(start_gateway(redis_server, "--workers", "2"))


def both_ready(stack: Stack) -> Stack:
    assert eventually(lambda: stack.gateway.log.count(READY) == 2)
    assert len(workers(stack)) == 2
    return stack


def workers(stack: Stack) -> list[int]:
    """The processes that serve."""
    return descendants(stack.gateway.pid)


def test_both_workers_serve(stack: Stack) -> None:
    """Each answers alone while the other stands still."""
    tenant = provision(stack)
    for one, other in (workers(stack), workers(stack)[::-1]):
        os.kill(one, signal.SIGSTOP)
        try:
            assert alive(other)
            statuses = {chat(stack, tenant.agent).status for _ in range(CERTAINLY_BOTH)}
        finally:
            os.kill(one, signal.SIGCONT)
        assert statuses == {200}


async def test_limits_are_exact_across_workers(stack: Stack) -> None:
    """Of 200 requests at once exactly as many pass as the limit says, and each is counted."""
    tenant = await asyncio.to_thread(provision, stack, org_rpm=50, tokens=100_000)

    answers = await chats(stack, tenant.agent, 200)

    assert Counter(answer.status for answer in answers) == {200: 50, 429: 150}
    assert Counters(stack, tenant).settled(50 * USED)


def test_a_change_is_felt_by_both(stack: Stack) -> None:
    """Within a second no worker obeys the limit of before."""
    tenant = provision(stack)
    assert {chat(stack, tenant.agent).status for _ in range(CERTAINLY_BOTH)} == {200}

    changed = time.monotonic()
    stack.tenants.limit(tenant, rpm=0)

    assert eventually(
        lambda: {chat(stack, tenant.agent).status for _ in range(CERTAINLY_BOTH)} == {429}, 2
    )
    assert time.monotonic() - changed < 1


def answer_slowly(peer: Peer) -> None:
    time.sleep(1)
    peer.json()


@pytest.mark.parametrize("whom", ["the parent", "the whole group", "the parent, twice"])
def test_sigterm_ends_all_with_everything_settled(
    stack: Stack, raw: RawUpstream, whom: str
) -> None:
    """Requests under way are answered and counted, and no process is left behind.

    Platforms and terminals signal every process of a group at once, or the parent again.
    """
    raw.script = answer_slowly
    tenant = provision(stack, tokens=100_000)
    everything = [stack.gateway.pid, *descendants(stack.gateway.pid)]
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(chat, stack, tenant.agent) for _ in range(8)]
        assert eventually(lambda: len(raw.requests) == 8, 5)

        if whom == "the whole group":
            os.killpg(stack.gateway.pid, signal.SIGTERM)
        else:
            stack.gateway.terminate()
        if whom == "the parent, twice":
            time.sleep(0.3)
            stack.gateway.terminate()

        assert [answer.result().status for answer in asked] == [200] * 8
    assert stack.gateway.wait(10) == 0, stack.gateway.log
    assert Counters(stack, tenant).settled(8 * USED)
    assert eventually(lambda: [pid for pid in everything if alive(pid)] == [], 5)
    assert "Traceback" not in stack.gateway.log


def test_a_dead_worker_is_replaced(stack: Stack) -> None:
    """Its successor serves like the others, and the log tells of it."""
    time.sleep(OLD_ENOUGH_S)
    first, second = workers(stack)
    os.kill(first, signal.SIGKILL)

    assert eventually(lambda: stack.gateway.log.count(READY) == 3)
    assert second in workers(stack)
    assert len(workers(stack)) == 2
    assert "a worker has died" in stack.gateway.log


def test_a_worker_that_dies_right_after_its_start_ends_everything(stack: Stack) -> None:
    """Its successors would die too: an exit code says so, instead of a start for ever."""
    os.kill(workers(stack)[0], signal.SIGKILL)

    assert stack.gateway.wait(10) == 1
    assert "a worker has died" in stack.gateway.log


def test_workers_do_not_outlive_their_parent(stack: Stack) -> None:
    """A parent that is killed takes its workers with it: the port is free for the next one."""
    everything = descendants(stack.gateway.pid)

    stack.gateway.kill()

    try:
        assert eventually(lambda: not any(map(alive, everything)), 10)
    finally:
        for pid in everything:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_the_environment_says_how_many_workers(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """WEB_CONCURRENCY is what counts where no option is given, and the option where it is."""
    both_ready(start_gateway(redis_server, WEB_CONCURRENCY="2"))

    alone = start_gateway(redis_server, "--workers", "1", WEB_CONCURRENCY="2")

    assert descendants(alone.gateway.pid) == []

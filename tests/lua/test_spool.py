"""Settlements reach Redis exactly once, whatever happens to their first attempt."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec
import pytest
from running import Look, Running, running, subject, through
from script_calls import ORG
from servers import StartRedis
from tcp_proxy import TcpProxy
from waiting import comes_true

from lua import keys, spool
from lua.decision import Decision
from lua.history import _minutes

DEADLINE_S = 0.05


@pytest.fixture
async def proxy(redis_url: str) -> AsyncIterator[TcpProxy]:
    """The way to the server of `redis_url`."""
    async with TcpProxy(urlsplit(redis_url).port or 0) as proxy:
        yield proxy


@pytest.fixture
async def proxied(redis_url: str, proxy: TcpProxy) -> AsyncIterator[Running]:
    """A limiter behind the proxy, with both scripts loaded and two connections made."""
    url = through(redis_url, proxy.port)
    async with running(url, deadline_s=DEADLINE_S, timeout_s=1.0) as it:
        await asyncio.gather(it.limiter.load(), it.limiter.load())
        yield it


async def admitted_late(it: Running, proxy: TcpProxy, delay_s: float) -> Decision:
    """A request admitted open, whose verdict is still on its way."""
    proxy.delay_replies(delay_s)
    decision = await it.limiter.admit(subject(), 10, 5)
    proxy.heal()
    assert decision.is_open
    return decision


async def test_a_late_verdict_is_adopted_for_settling(
    proxied: Running, proxy: TcpProxy, look: Look
) -> None:
    """Forwarded open at the deadline; what Redis held meanwhile is released by the settling."""
    loop = asyncio.get_running_loop()
    asked = loop.time()
    decision = await admitted_late(proxied, proxy, 0.3)
    assert loop.time() - asked < 0.25
    assert look.month() == (0, 15)
    assert await comes_true(lambda: not decision.reservation.member.endswith(":0:0"))

    proxied.limiter.settle(decision.reservation, 7)
    await proxied.drain()

    assert look.month() == (7, 0)
    assert look.open_reservations() == 0
    assert proxied.limiter.admitted_open == 1


async def test_a_verdict_later_than_the_settling_holds_nothing(
    proxied: Running, proxy: TcpProxy, look: Look
) -> None:
    """The answer was short and its tokens are counted already; the late hold goes as well."""
    decision = await admitted_late(proxied, proxy, 0.3)
    proxied.limiter.settle(decision.reservation, 7)
    await proxied.drain()
    assert look.month()[0] == 7

    await asyncio.gather(*proxied.limiter._calls)
    await proxied.drain()

    assert look.month() == (7, 0)
    assert look.open_reservations() == 0


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_admission_whose_answer_got_lost_holds_nothing(
    proxied: Running, proxy: TcpProxy, look: Look, when: str
) -> None:
    """Forwarded open; what Redis holds for it is released, whenever the loss becomes known."""
    others = await proxied.limiter.admit(subject(), 3, 0)
    proxy.black_hole() if when == "after" else proxy.cut_replies()
    decision = await proxied.limiter.admit(subject(), 10, 5)
    assert decision.is_open
    assert await comes_true(lambda: look.month() == (0, 18))
    proxied.limiter.settle(decision.reservation, 7)
    await asyncio.gather(*proxied.limiter._calls)
    proxy.heal()

    await proxied.drain()

    assert look.month() == (7, 3)
    proxied.limiter.settle(others.reservation, 2)
    await proxied.drain()
    assert (look.month(), look.open_reservations()) == ((9, 0), 0)
    assert proxied.limiter.spool.lost == 0


async def test_a_repetition_is_the_settling_that_was_sent_first(
    proxied: Running, proxy: TcpProxy, look: Look
) -> None:
    """Settled without a verdict, the answer lost, the verdict comes, it is sent again: once."""
    decision = await admitted_late(proxied, proxy, 0.2)
    proxy.cut_replies()
    proxied.limiter.settle(decision.reservation, 7)
    assert await comes_true(lambda: look.month()[0] == 7)
    await asyncio.gather(*proxied.limiter._calls)
    proxy.heal()

    await proxied.drain()

    assert look.month() == (7, 0)


async def test_an_estimate_is_flagged_once_whatever_becomes_of_its_answer(
    proxied: Running, proxy: TcpProxy, look: Look
) -> None:
    """Sent again because the answer got lost, it is neither doubled nor taken for a report."""
    reported, guessed = [await proxied.limiter.admit(subject(), 10, 0) for _ in range(2)]
    proxied.limiter.settle(reported.reservation, 5)
    await proxied.drain()
    proxy.cut_replies()
    proxied.limiter.settle(guessed.reservation, 7, is_estimate=True)
    assert await comes_true(lambda: look.month()[0] == 12)
    proxy.heal()
    await proxied.drain()

    minutes = _minutes(look.redis.hgetall(keys.org_ring(ORG)), int(look.redis.time()[0]))

    assert [sum(getattr(m, kind) for m in minutes) for kind in ("tokens", "estimated")] == [12, 7]
    assert proxied.limiter.tokens_estimated == 7


async def test_one_slow_reply_opens_nothing(proxied: Running, proxy: TcpProxy, look: Look) -> None:
    """One request goes open; the breaker stays closed, and the next request is decided."""
    await admitted_late(proxied, proxy, 0.2)
    await asyncio.sleep(0.3)

    decision = await proxied.limiter.admit(subject(), 0, 0)

    assert (proxied.breaker.is_open, decision.is_open) == (False, False)
    assert decision.org_used == 2
    assert look.redis.exists(keys.PROBE) == 0


@pytest.mark.parametrize("loss", ["black_hole", "cut_replies"])
async def test_a_settling_whose_answer_got_lost_counts_once(
    proxied: Running, proxy: TcpProxy, look: Look, loss: str
) -> None:
    """Redis counted it, nobody heard: it is sent again and recognized. Others go on as well."""
    decisions = [await proxied.limiter.admit(subject(), 10, 0) for _ in range(3)]
    getattr(proxy, loss)()
    for decision in decisions:
        proxied.limiter.settle(decision.reservation, 4)
    assert await comes_true(lambda: look.month() == (12, 0))
    await asyncio.sleep(spool.RETRY_S * 2)
    assert len(proxied.limiter.spool) + bool(proxied.limiter.spool._writing) > 0
    proxy.heal()

    await proxied.drain()

    assert look.month() == (12, 0)
    assert proxied.limiter.spool.lost == 0
    assert proxied.limiter.admitted_open == 0


async def test_an_open_settling_whose_answer_got_lost_counts_once(
    proxied: Running, proxy: TcpProxy, look: Look
) -> None:
    """The same for a request that was forwarded without any decision."""
    proxied.breaker.open("a test")
    decision = await proxied.limiter.admit(subject(), 10, 0)
    assert await comes_true(lambda: not proxied.breaker.is_open)
    proxy.cut_replies()
    proxied.limiter.settle(decision.reservation, 4)
    assert await comes_true(lambda: look.month() == (4, 0))
    proxy.heal()

    await proxied.drain()

    assert look.month() == (4, 0)


async def test_settlings_of_an_outage_are_counted_after_it(start_redis: StartRedis) -> None:
    """They wait in the spool while nobody answers, and each counts once when the server is back."""
    server = start_redis()
    async with running(server.url, timeout_s=0.3) as it:
        decisions = [await it.limiter.admit(subject(), 10, 0) for _ in range(200)]
        server.stop()
        for decision in decisions:
            it.limiter.settle(decision.reservation, 3)
        await asyncio.sleep(1.0)
        assert len(it.limiter.spool) == 200
        server.start()

        await it.drain()

        assert Look(server.url).month() == (600, 0)
        assert it.limiter.spool.lost == 0


async def test_settlings_that_fail_open_the_breaker(start_redis: StartRedis) -> None:
    """Without any other traffic: an outage is one, whoever meets it first."""
    server = start_redis()
    async with running(server.url, timeout_s=0.3) as it:
        decision = await it.limiter.admit(subject(), 1, 0)
        server.stop()
        it.limiter.settle(decision.reservation, 1)

        assert await comes_true(lambda: it.breaker.is_open)
        server.start()
        await it.drain()
        assert not it.breaker.is_open


async def test_a_full_spool_gives_up_the_newest_and_counts_them(
    start_redis: StartRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded: what did not fit is lost, told, and not in anybody's way."""
    monkeypatch.setattr(spool, "CAPACITY", 10)
    server = start_redis()
    async with running(server.url, timeout_s=0.3) as it:
        decisions = [await it.limiter.admit(subject(), 1, 0) for _ in range(14)]
        server.stop()
        it.breaker.open("a test")
        for decision in decisions:
            it.limiter.settle(decision.reservation, 2)
        assert (len(it.limiter.spool), it.limiter.spool.lost) == (10, 4)
        server.start()

        await it.drain()

        assert Look(server.url).month() == (20, 4)


async def test_a_settling_that_the_script_refuses_is_given_up_alone(
    redis_url: str, look: Look
) -> None:
    """A month that cannot take any more is one organization's trouble; the batch's others count."""
    async with running(redis_url) as it:
        everybody = ["org-1", ORG, "org-2", "org-3"]
        decisions = [await it.limiter.admit(subject(org), 5, 0) for org in everybody]
        month = next(f for f in look.redis.hkeys(keys.month_tokens(ORG)) if f.endswith(b":held"))
        look.redis.hset(keys.month_tokens(ORG), month.removesuffix(b":held"), 2**63 - 1)
        for decision in decisions:
            it.limiter.settle(decision.reservation, 4)

        await it.drain()

        assert it.limiter.spool.lost == 1
        assert [look.month(org) for org in everybody if org != ORG] == [(4, 0)] * 3
        assert not it.breaker.is_open


async def test_a_settling_that_cannot_even_be_sent_is_given_up_alone(
    redis_url: str, look: Look
) -> None:
    """Whatever is wrong with one, it is told to be lost, and the batch's others count."""
    async with running(redis_url) as it:
        decisions = [await it.limiter.admit(subject(f"org-{i}"), 5, 0) for i in range(3)]
        wrong = decisions[1].reservation
        wrong.subject = msgspec.structs.replace(wrong.subject, agent_key=None)
        for decision in decisions:
            it.limiter.settle(decision.reservation, 4)

        await it.drain()

        assert it.limiter.spool.lost == 1
        assert [look.month(f"org-{i}") for i in range(3)] == [(4, 0), (0, 5), (4, 0)]
        assert (it.breaker.is_open, it.connections_in_use) == (False, 0)


async def test_closing_settles_what_waits(redis_url: str, look: Look) -> None:
    """Nothing is left behind by an orderly end."""
    async with running(redis_url) as it:
        for _ in range(300):
            decision = await it.limiter.admit(subject(), 2, 0)
            it.limiter.settle(decision.reservation, 1)

        await it.limiter.close(5)

        assert look.month() == (300, 0)


async def test_closing_during_an_outage_ends_in_time(start_redis: StartRedis) -> None:
    """What cannot be settled is not waited for longer than was allowed."""
    server = start_redis()
    async with running(server.url, timeout_s=0.3) as it:
        decision = await it.limiter.admit(subject(), 2, 0)
        server.freeze()
        it.limiter.settle(decision.reservation, 1)
        loop = asyncio.get_running_loop()
        before = loop.time()

        await it.limiter.close(0.5)

        assert loop.time() - before < 3
        server.thaw()

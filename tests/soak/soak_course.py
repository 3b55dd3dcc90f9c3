"""The course of a soak: warm up, torment, compare; then what may cost something, each apart."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random

from gateway_process import GatewayProcess
from gateway_stack import Tenant, Tenants
from processes import descendants
from servers import connect, eventually
from soak_clients import Crowd, Habits
from soak_faults import Happened, Patients, torment
from soak_gauges import GROWN_MIB, Memory, Ports, counted, descriptors, port_of
from soak_outcome import Books, Loss, Report
from soak_truth import Truth, passed_limit, truth

WARM_S = 6.0
LOSSY_S = 3.0
SETTLES_S = 60.0
LIMIT = 60
"""Requests per minute of the agent that is denied most of the time."""
LOST_S = 0.5
"""What ends so shortly before or after Redis is emptied, or a worker killed, may be lost."""
MORE_SOCKETS = {"redis": 12, "postgres": 8}
"""The pools' bounds: so many more than at the start may be open."""


class Course:
    """One soak over servers that have been started."""

    def __init__(
        self, patients: Patients, gateway: GatewayProcess, tenants: Tenants, database_url: str
    ) -> None:
        self._patients = patients
        self._gateway = gateway
        self._tenants = tenants
        self._database_url = database_url
        self._memory = Memory()
        self._happened = Happened()
        self._ports = Ports(
            gateway.port,
            patients.redis.port,
            port_of(database_url),
            patients.upstream.port,
        )
        self._orgs: dict[str, Tenant] = {}
        self._limit_agent = ""

    async def run(self, seconds: float, seed: int, random: Random) -> Report:
        """All of it."""
        report = Report(seed, seconds)
        await asyncio.to_thread(self._provision)
        crowd = Crowd(self._gateway.url, random)
        async with self._working(crowd):
            await asyncio.sleep(WARM_S)
        before = await self._open_descriptors(report)
        async with self._working(crowd):
            until = time.monotonic() + seconds
            await torment(self._patients, random, until, self._happened)
        await self._compare(crowd, report, before)
        await self._emptied(crowd, report)
        await self._killed(crowd, report)
        self._tell(crowd, report)
        return report

    def _provision(self) -> None:
        create = self._tenants.create
        self._orgs = {
            "steady": create(agents=3),
            "restless": create(agents=2),
            "limited": create(agents=2),
        }
        limited = self._orgs["limited"]
        self._limit_agent = limited.agents[0].id
        self._tenants.limit(limited, limited.agents[0], rpm=LIMIT)
        self._key = self._tenants.run(lambda s: s.issue_platform_key("soak")).value.key
        known = [agent for tenant in self._orgs.values() for agent in tenant.agents]
        for agent in known * 4:  # both workers
            known_by = partial(self._gateway.get, "/limits", agent.bearer)
            assert eventually(lambda ask=known_by: ask()[0] == 200)  # type: ignore[misc]

    @asynccontextmanager
    async def _working(self, crowd: Crowd) -> AsyncIterator[None]:
        """Everybody at work during the block, and finished after it."""
        steady, restless, limited = self._orgs.values()
        for agent in steady.agents:
            crowd.add(steady, agent, Habits(), 3)
        for agent in restless.agents:
            crowd.add(restless, agent, Habits(leaves=0.5, slow=0.05, streams=0.8), 3)
        crowd.add(limited, limited.agents[0], Habits(pause_s=0.3, big=0.0), 2)
        crowd.add(limited, limited.agents[1], Habits(pause_s=0.3, big=0.0), 1)
        crowd.operate([tenant.id for tenant in self._orgs.values()], limited, self._key)
        sampling = asyncio.create_task(self._sample())
        try:
            yield
        finally:
            await crowd.leave()
            sampling.cancel()

    async def _sample(self) -> None:
        while True:
            await asyncio.to_thread(self._memory.sample, self._gateway.pid)
            await asyncio.sleep(1.0)

    async def _until(self, condition: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not await condition():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.25)
        return True

    async def _open_descriptors(self, report: Report) -> list[Counter[str]]:
        """Of each worker, once nobody is connected any more."""
        found: list[Counter[str]] = []

        async def quiet() -> bool:
            self._patients.upstream.rest()
            found[:] = [descriptors(pid, self._ports) for pid in descendants(self._gateway.pid)]
            return not any(one["clients"] or one["upstream"] for one in found)

        if not await self._until(quiet, 15.0):
            report.violations.append(f"connections stay open that nobody uses: {found}")
        return found

    async def _books(self, counts: Truth) -> list[Books]:
        found = []
        for name, tenant in self._orgs.items():
            bounds = counts.tokens[tenant.id]
            sums = await counted(self._patients.redis.url, self._database_url, tenant.id)
            found.append(Books(name, bounds.least, bounds.most, bounds.exact, bounds.cut, sums))
        return found

    async def _settled(self, crowd: Crowd) -> tuple[Truth, list[Books]]:
        """When nothing is held any more and the ledger has followed, or time is over."""
        counts = truth(crowd.calls, self._patients.upstream.spent)
        books: list[Books] = []

        async def agree() -> bool:
            books[:] = await self._books(counts)
            return all(
                (it.counted.held, it.counted.open) == (0, 0)
                and it.counted.redis == it.counted.months == it.counted.minutes
                for it in books
            )

        await self._until(agree, SETTLES_S)
        return counts, books

    async def _compare(self, crowd: Crowd, report: Report, before: list[Counter[str]]) -> None:
        """Truth, Redis and Postgres after everything that may cost nothing."""
        counts, report.books = await self._settled(crowd)
        report.violations += counts.violations
        for it in report.books:
            sums, bounds = it.counted, counts.tokens[self._orgs[it.name].id]
            reported = counts.reported[self._orgs[it.name].id]
            if not bounds.hold(sums.redis):
                report.violations.append(f"{it.name}: Redis counts {sums.redis}, truth {bounds}")
            if not reported.hold(sums.minutes - sums.estimated):
                report.violations.append(
                    f"{it.name}: {sums.minutes - sums.estimated} counted as reported,"
                    f" truth {reported}"
                )
            if not sums.redis == sums.months == sums.minutes:
                report.violations.append(f"{it.name}: Redis and Postgres differ: {sums}")
            requests = counts.requests[self._orgs[it.name].id]
            if not requests.hold(sums.requests):
                report.violations.append(f"{it.name}: {sums.requests} requests, truth {requests}")
            if sums.held or sums.open:
                report.violations.append(f"{it.name}: reservations are left: {sums}")
        self._failures(crowd, report)
        if passed := passed_limit(crowd.calls, self._limit_agent, LIMIT):
            report.violations.append(passed)
        after = await self._open_descriptors(report)
        self._leaks(before, after, report)
        report.memory = self._memory.growth()
        report.violations += [
            f"a worker has grown from {warm:.0f} to {end:.0f} MiB"
            for warm, end in report.memory
            if end - warm > GROWN_MIB
        ]

    def _failures(self, crowd: Crowd, report: Report) -> None:
        """Whoever was not answered, without its own or the upstream's doing."""
        for call in crowd.calls:
            is_fine = call.has_left or (
                call.is_whole
                and call.status in {200, 429}
                and not (call.error and call.status == 200)
            )
            if not is_fine and not self._happened.upstream_at(call.began, call.ended_at):
                report.violations.append(f"a request failed by us: {call}")
        report.violations += [f"an operator's call failed: {it}" for it in crowd.surprises]
        for line in ("Traceback", "internal error"):
            if line in self._gateway.log:
                told = self._gateway.log.partition(line)[2][:3000]
                report.violations.append(f"the gateway's log has a {line}: {told}")

    def _leaks(self, before: list[Counter[str]], after: list[Counter[str]], report: Report) -> None:
        for one, other in zip(before, after, strict=True):
            report.sockets.append(f"{dict(one)} -> {dict(other)}")
            for kind in one | other:
                more = other[kind] - one[kind]
                if kind != "all" and more > MORE_SOCKETS.get(kind, 0):
                    report.violations.append(f"{more} more descriptors of kind {kind}")

    async def _emptied(self, crowd: Crowd, report: Report) -> None:
        """FLUSHALL under traffic: months are raised again from what the workers know."""
        async with self._lossy(crowd, report, "Redis emptied"):
            with connect(self._patients.redis.url) as client:
                client.flushall()

    async def _killed(self, crowd: Crowd, report: Report) -> None:
        """A worker ends without a word; its successor serves."""
        async with self._lossy(crowd, report, "a worker killed"):
            os.kill(descendants(self._gateway.pid)[0], signal.SIGKILL)

    @asynccontextmanager
    async def _lossy(self, crowd: Crowd, report: Report, name: str) -> AsyncIterator[None]:
        """The block in the middle of traffic; then what is missing, and how much may be."""
        before = await self._whole(crowd)
        async with self._working(crowd):
            await asyncio.sleep(LOSSY_S)
            at = time.monotonic()
            yield
            await asyncio.sleep(LOSSY_S)
        after = await self._whole(crowd)
        lost = after - before
        under_way = [call for call in crowd.calls if call.began <= at <= call.ended_at]
        spent = self._patients.upstream.spent
        allowed = sum(
            spent[call.id].stated
            for call in crowd.calls
            if call.id in spent and at - LOST_S <= call.ended_at <= at + LOST_S
        )
        left = sum(it.counted.open for it in await self._books(truth(crowd.calls, spent)))
        report.losses.append(Loss(name, lost, allowed, left, len(under_way)))
        if abs(lost) > allowed:
            report.violations.append(f"{name}: {lost} tokens lost, {allowed} may be")
        if left > len(under_way):
            report.violations.append(f"{name}: {left} reservations left of {len(under_way)}")

    async def _whole(self, crowd: Crowd) -> int:
        """Truth less what Redis counts, where the truth is exact but for what came before."""
        await asyncio.sleep(LOSSY_S)
        counts = truth(crowd.calls, self._patients.upstream.spent)
        return sum(
            it.least - it.counted.redis for it in await self._books(counts) if it.name != "restless"
        )

    def _tell(self, crowd: Crowd, report: Report) -> None:
        report.faults = Counter(name for name, _, _ in self._happened.faults)
        report.operated = crowd.operated
        for call in crowd.calls:
            outcome = "left by its client" if call.has_left else str(call.status or "broken off")
            if call.is_open:
                report.statuses["of these, admitted open"] += 1
            if call.error and call.status == 200:
                outcome = "200, cut by the upstream"
            report.statuses[outcome] += 1

"""The scripts against an exact-log oracle, with an injected clock, on every supported server."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import redis
from comparison import assert_every_key_expires, assert_history, assert_months, assert_resets
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from oracle import Held, Oracle, Request, month_of

from lua import keys
from lua.batch import Keys
from lua.decision import Subject
from lua.scripts import ADMIT, COMMIT, Script

ORGS = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
AGENTS = ("a1", "a2", "a3")
START_MS = 1_795_000_000_000
HOUR_MS = 3_600_000
WIDTH = 13

limits = st.one_of(st.just(-1), st.integers(0, 6), st.just(40))
ceilings = st.one_of(st.just(-1), st.integers(0, 300), st.just(2**53 - 1))
tokens = st.one_of(st.just(0), st.integers(1, 80))
pauses = st.one_of(st.integers(1, 999), st.integers(1_000, 70_000), st.integers(1, 3 * HOUR_MS))
requests = st.tuples(st.sampled_from(ORGS), st.sampled_from(AGENTS), tokens, tokens)


class LimiterMachine(RuleBasedStateMachine):
    """Random agents, organizations, months, leases, clock steps and losses."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__()
        self.client: Any = client
        self.client.flushall()
        self.oracle = Oracle()
        self.now_ms = START_MS
        self.ids = 0
        self.limits: dict[str, int] = {}
        self.months_lost = False
        self.is_knowing = False
        self.known: dict[tuple[str, str], int] = {}
        self.admissions: list[tuple[int, str, str]] = []

    def knowledge(self, org: str) -> int:
        """What the gateway says of the running month; the oracle's is raised to it."""
        now = (org, month_of(self.now_ms))
        known = self.known.get(now, 0) if self.is_knowing else 0
        self.oracle.used[now] = max(known, self.oracle.used.get(now, 0))
        return known

    def limit(self, name: str) -> int:
        """The limit of a level, set by set_limit; none at first."""
        return self.limits.get(name, -1)

    def call(self, script: Script, batch: Keys, args: Sequence[object]) -> list[int]:
        """Run a script with the injected clock."""
        arguments = (len(batch.all), *batch.all, self.now_ms, *args)
        reply: list[int]
        try:
            reply = self.client.evalsha(script.sha, *arguments)
        except redis.exceptions.NoScriptError:
            reply = self.client.eval(script.source, *arguments)
        return reply

    @staticmethod
    def subject(org: str, agent: str) -> Subject:
        """Keys of that agent; limits travel beside them here."""
        return Subject.of((org, agent), (None, None, None), None)

    @initialize(is_knowing=st.booleans())
    def start(self, *, is_knowing: bool) -> None:
        """A gateway that raises what is lower than it knows, or one that knows nothing."""
        self.is_knowing = is_knowing

    @rule(name=st.sampled_from([*ORGS, *(f"{o}/{a}" for o in ORGS for a in AGENTS), "global"]),
          limit=limits)  # fmt: skip
    def set_limit(self, name: str, limit: int) -> None:
        """Operators change limits at any time."""
        self.limits[name] = limit

    @rule(org=st.sampled_from(ORGS), ceiling=ceilings)
    def set_ceiling(self, org: str, ceiling: int) -> None:
        """Also the ceiling, also below what is used."""
        self.limits[f"{org}/tokens"] = ceiling

    @rule(ms=pauses)
    def time_passes(self, ms: int) -> None:
        """A little, about a window, or hours."""
        self.now_ms += ms

    @rule(days=st.integers(1, 40))
    def days_pass(self, days: int) -> None:
        """Over the end of a month."""
        self.now_ms += days * 24 * HOUR_MS

    @precondition(lambda self: not self.months_lost)
    @rule(ms=st.one_of(st.integers(1, 5_000), st.integers(1, 200_000)))
    def clock_steps_back(self, ms: int) -> None:
        """A little: it keeps counting. Far: the key restarts.

        Not after a month was lost: the clock is what tells its reservations from later ones.
        """
        self.now_ms -= ms
        self.admissions.clear()

    @rule(batch=st.lists(requests, min_size=1, max_size=8), lease_s=st.sampled_from([1, 60, 1800]))
    def admit(self, batch: list[tuple[str, str, int, int]], lease_s: int) -> None:
        """Every request of a batch gets the oracle's verdict and numbers."""
        found, asked = Keys(), []
        args: list[object] = [lease_s * 1000, month_of(self.now_ms)]
        for org, agent, needed, extra in batch:
            request = Request(
                org,
                agent,
                (self.limit(f"{org}/{agent}"), self.limit(org), self.limit("global")),
                self.limit(f"{org}/tokens"),
                needed,
                extra,
            )
            self.ids += 1
            args += (*found.of(self.subject(org, agent)), *request.limits, request.ceiling)
            args += (needed, extra, f"r{self.ids}", self.knowledge(org))
            asked.append((request, f"r{self.ids}"))
        reply = self.call(ADMIT, found, args)
        assert reply[:2] == [self.now_ms, 0]
        for index, (request, name) in enumerate(asked):
            got = reply[3 + index * WIDTH : 3 + (index + 1) * WIDTH]
            self.compare(request, name, lease_s, got)

    def compare(self, request: Request, name: str, lease_s: int, got: list[int]) -> None:
        """One verdict, number by number."""
        expected = self.oracle.admit(request, self.now_ms, lease_s * 1000)
        retry = -1 if expected.retry_after_ms is None else expected.retry_after_ms
        used = self.oracle.used.get((request.org, month_of(self.now_ms)), 0)
        assert got[:2] == [int(expected.level == 0), expected.level]
        assert tuple(got[2:5]) == expected.used
        assert (got[5], got[7], got[8]) == (used, expected.held, retry)
        self.known[request.org, month_of(self.now_ms)] = used
        for (ring, _), frees, empty in zip(
            self.oracle.levels(request)[:2], got[9:11], got[11:13], strict=True
        ):
            assert_resets(ring, self.now_ms, frees, empty)
        if expected.level == 0:
            self.oracle.held[-1].member = f"{name}:{self.now_ms}:{expected.held}"
            self.admissions.append((self.now_ms, request.org, request.agent))
            self.no_window_is_violated(request)

    def no_window_is_violated(self, request: Request) -> None:
        """Counted from scratch, to the millisecond: the trailing 60 s never exceed a limit."""
        recent = [a for a in self.admissions if a[0] > self.now_ms - 60_000]
        counts = (
            sum(a[1:] == (request.org, request.agent) for a in recent),
            sum(a[1] == request.org for a in recent),
            len(recent),
        )
        for count, limit in zip(counts, request.limits, strict=True):
            assert limit < 0 or count <= limit

    def commit(self, held: Held, used: int, *, is_retry: bool) -> int:
        """Settle once; says whether it counted."""
        found = Keys()
        where = found.of(self.subject(held.org, held.agent))
        args = (held.member, used, 0, int(is_retry), self.knowledge(held.org))
        reply = self.call(COMMIT, found, [month_of(self.now_ms), *where, *args])
        assert reply[:2] == [self.now_ms, 0]
        counted, total = reply[3:]
        before = self.oracle.used.get((held.org, month_of(self.now_ms)), 0)
        is_now = month_of(held.admitted_ms or self.now_ms) == month_of(self.now_ms)
        assert total == before + used * (counted and is_now)
        self.known[held.org, month_of(self.now_ms)] = total
        return counted

    def waiting(self) -> list[Held]:
        """Reservations whose usage is not in yet, in a fixed order."""
        return [held for held in self.oracle.held if not held.counted]

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), used=tokens, copies=st.integers(0, 2), late_first=st.booleans())
    def settle(self, data: st.DataObject, used: int, copies: int, late_first: bool) -> None:
        """Counts once, also lapsed or lost, also repeated or overtaken by a repetition."""
        held = data.draw(st.sampled_from(self.waiting()))
        first_is_retry = late_first and not held.lost and held.lease_end > self.now_ms - HOUR_MS
        assert self.commit(held, used, is_retry=first_is_retry) == 1
        self.oracle.settle(held, self.now_ms, used)
        if first_is_retry:
            assert self.commit(held, used, is_retry=False) == 0
        for _ in range(copies):
            assert self.commit(held, used, is_retry=True) == 0

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), used=tokens, copies=st.integers(0, 2), settled_first=st.booleans())
    def lose_the_answer(
        self, data: st.DataObject, used: int, copies: int, *, settled_first: bool
    ) -> None:
        """Nobody heard of the admission: settled as one without a decision, its hold released."""
        held = data.draw(st.sampled_from(self.waiting()))
        name = held.member.partition(":")[0]
        blind = Held(f"{name}:0:0", held.org, held.agent, 0, 0, 0, pending=False)
        lost = replace(held, member=f"{name}:?")
        is_held = held.pending and not held.lost and held.lease_end > self.now_ms
        if settled_first:
            self.settle_blindly(blind, used)
        released = self.commit(lost, 0, is_retry=False)
        assert released or not is_held
        for _ in range(copies):
            assert self.commit(lost, 0, is_retry=True) == 0
        if not settled_first:
            self.settle_blindly(blind, used)
        held.pending, held.counted = False, True

    @rule(org=st.sampled_from(ORGS), agent=st.sampled_from(AGENTS), used=tokens,
          copies=st.integers(0, 2))  # fmt: skip
    def settle_without_decision(self, org: str, agent: str, used: int, copies: int) -> None:
        """What was forwarded open counts in the running month, once."""
        self.ids += 1
        held = Held(f"r{self.ids}:0:0", org, agent, 0, 0, 0, pending=False)
        self.settle_blindly(held, used)
        for _ in range(copies):
            assert self.commit(held, used, is_retry=True) == 0

    def settle_blindly(self, held: Held, used: int) -> None:
        """One without a decision counts in the running month."""
        assert self.commit(held, used, is_retry=False) == 1
        self.oracle.settle(held, self.now_ms, used)

    @rule()
    def redis_loses_everything(self) -> None:
        """FLUSHALL."""
        self.client.flushall()
        self.oracle.lose_everything()
        self.admissions.clear()
        self.months_lost = False

    @rule(org=st.sampled_from(ORGS))
    def a_month_is_lost_alone(self, org: str) -> None:
        """DEL of one hash, the reservations of which stay open: their holds are not released."""
        self.now_ms = max(self.now_ms, *(held.admitted_ms for held in self.oracle.held), 0) + 1
        self.client.delete(keys.month_tokens(org))
        self.oracle.lose_month(org)
        self.months_lost = True

    @rule()
    def scripts_are_lost(self) -> None:
        """SCRIPT FLUSH."""
        self.client.script_flush()

    @invariant()
    def every_key_expires(self) -> None:
        """No key without a TTL."""
        assert_every_key_expires(self.client)

    @invariant()
    def months_are_the_oracles(self) -> None:
        """What is used, and what is held by the open reservations."""
        for org in ORGS:
            assert_months(self.client, self.oracle, org)

    @invariant()
    def history_is_the_oracles(self) -> None:
        """The minutes in the rings are the admissions and the tokens of those minutes."""
        for org in ORGS:
            assert_history(self.client, self.oracle, keys.org_ring(org), org)
            for agent in AGENTS:
                ring = keys.agent_ring(org, agent)
                assert_history(self.client, self.oracle, ring, f"{org}/{agent}")
        assert_history(self.client, self.oracle, keys.GLOBAL_RING, "global")


@pytest.fixture
def machine(any_redis_url: str) -> Iterator[Callable[[], LimiterMachine]]:
    """Makes a machine on an emptied server."""
    with redis.Redis.from_url(any_redis_url) as client:
        yield lambda: LimiterMachine(client)


def test_scripts_decide_and_count_as_the_exact_log_does(
    machine: Callable[[], LimiterMachine],
) -> None:
    """Decisions, numbers, months, leases, history and TTLs equal the oracle's, step by step."""
    run_state_machine_as_test(
        cast("type[LimiterMachine]", machine),
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            derandomize=False,  # other examples each time, also in CI
            print_blob=True,  # which repeats the failing one
            suppress_health_check=list(HealthCheck),
        ),
    )

"""Calls of both scripts at an injected time, and a look at what they leave in Redis."""

from dataclasses import dataclass
from typing import Any

import redis

from lua import keys
from lua.batch import Keys
from lua.decision import LEVELS, NO_LIMIT, Level, Subject
from lua.scripts import ADMIT, COMMIT, Script

ORG = "11111111-1111-4111-8111-111111111111"
AGENT = "a1"
MONTH = "2026-11"
START_MS = 1_795_000_020_000  # 2026-11-18, the first second of a minute
HOUR_MS = 3_600_000
WIDTH = 13


@dataclass(frozen=True)
class Ask:
    """What one request asks of admit.lua: limits and ceiling (-1 = none), tokens."""

    org: str = ORG
    agent: str = AGENT
    agent_rpm: int = NO_LIMIT
    org_rpm: int = NO_LIMIT
    global_rpm: int = NO_LIMIT
    ceiling: int = NO_LIMIT
    needed: int = 0
    extra: int = 0

    @property
    def subject(self) -> Subject:
        """Its keys."""
        return Subject.of((self.org, self.agent), (None, None, None), None)


@dataclass(frozen=True)
class Verdict:
    """What admit.lua replies to one request, under the reply's own names."""

    ask: Ask
    member: str
    admitted: bool
    level: Level | None
    used: tuple[int, int, int]
    tokens_used: int
    tokens_held: int
    held: int
    retry_after_ms: int
    frees_ms: tuple[int, int]
    empty_ms: tuple[int, int]


class Scripts:
    """Both scripts at `now_ms`. `healed`, `raised` and `totals` are what the latest reply said;
    `known` is what a gateway knows of its month.
    """

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client
        self.now_ms = START_MS
        self.healed = 0
        self.raised = 0
        self.totals: list[int] = []
        self.known_month = MONTH
        self.known: dict[str, int] = {}
        self._ids = 0

    def admit(self, *asks: Ask, lease_s: int = 60) -> list[Verdict]:
        """One call for all of them."""
        batch = Keys()
        args: list[object] = [lease_s * 1000, self.known_month]
        ids = []
        for ask in asks:
            self._ids += 1
            ids.append(f"r{self._ids}")
            args += (*batch.of(ask.subject), ask.agent_rpm, ask.org_rpm, ask.global_rpm)
            args += (ask.ceiling, ask.needed, ask.extra, ids[-1], self.known.get(ask.org, 0))
        reply = self._run(ADMIT, batch, args)
        assert len(reply) == len(asks) * WIDTH
        return [
            self._verdict(ask, ids[i], reply[i * WIDTH : (i + 1) * WIDTH])
            for i, ask in enumerate(asks)
        ]

    def admit_one(self, ask: Ask, lease_s: int = 60) -> Verdict:
        """A call for this one alone."""
        return self.admit(ask, lease_s=lease_s)[0]

    def settle(
        self, *used: tuple[Verdict, int], is_retry: bool = False, is_estimate: bool = False
    ) -> list[int]:
        """One call for all of them: 1 counted, 0 was counted before."""
        batch = Keys()
        args: list[object] = [self.known_month]
        for verdict, tokens in used:
            args += (*batch.of(verdict.ask.subject), verdict.member, tokens)
            args += (int(is_estimate), int(is_retry), self.known.get(verdict.ask.org, 0))
        reply = self._run(COMMIT, batch, args)
        assert len(reply) == 2 * len(used)
        self.totals = reply[1::2]
        return reply[::2]

    def month(self, org: str = ORG, name: str = MONTH) -> tuple[int, int]:
        """Tokens used and held in that month."""
        used, held = self.client.hmget(keys.month_tokens(org), name, f"{name}:held")
        return int(used or 0), int(held or 0)

    def contents(self) -> dict[bytes, bytes]:
        """Every key with its value, serialized."""
        return {key: self.client.dump(key) for key in self.client.scan_iter("*")}

    def requests_used(self, ask: Ask) -> tuple[int, int, int]:
        """Requests of agent, organization and platform in the window, as a denial reports them."""
        denied = self.admit_one(Ask(ask.org, ask.agent, agent_rpm=0))
        assert denied.level == "agent"
        return denied.used

    def _run(self, script: Script, batch: Keys, args: list[object]) -> list[int]:
        reply: list[int]
        try:
            reply = self.client.evalsha(script.sha, len(batch.all), *batch.all, self.now_ms, *args)
        except redis.exceptions.NoScriptError:
            reply = self.client.eval(script.source, len(batch.all), *batch.all, self.now_ms, *args)
        now_ms, self.healed, self.raised, *rest = reply
        assert now_ms == self.now_ms
        return rest

    def _verdict(self, ask: Ask, name: str, reply: list[int]) -> Verdict:
        held = reply[7]
        return Verdict(
            ask,
            f"{name}:{self.now_ms}:{held}",
            bool(reply[0]),
            LEVELS[reply[1]],
            (reply[2], reply[3], reply[4]),
            reply[5],
            reply[6],
            held,
            reply[8],
            (reply[9], reply[10]),
            (reply[11], reply[12]),
        )

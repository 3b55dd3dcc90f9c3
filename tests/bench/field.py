"""Everybody who could be started, and the agents that send to them."""

import asyncio
import http.client
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chat import Sender
from closed_loop import Load, LoadError, LoopFigures, run
from consumption import cpu_s, memory_bytes
from participants import IBEX, IBEX_2, Participant, lineup
from senders import provision
from stand import Effort, Server, Stand
from tools import MissingError

from gateway.children import ChildError
from gateway.embedded import HOST

AGENTS = 100
WARM_UP_S, SLOW_WARM_UP_S = 1, 5
IDLE_S = 2.0
WARM_UP_CONNECTIONS = 32
SETTLED_WITHIN_S = 5.0
ASKED_EACH = 10
"""How often a server is asked how it is, so that each of its workers is."""


class Field:
    """Starts the participants; `remarks` says what is missing on the page, and why."""

    def __init__(self, stand: Stand, effort: Effort) -> None:
        self.stand = stand
        self.effort = effort
        senders = asyncio.run(provision(stand.postgres.url, AGENTS))
        self.plenty = [sender for sender in senders if not sender.is_tight]
        self.tight = [sender for sender in senders if sender.is_tight]
        self.participants: list[Participant] = []
        self.remarks: list[str] = []
        self.rest: dict[str, int] = {}
        """Bytes of memory before the first request."""
        self._servers: dict[str, Server] = {}
        for participant in lineup(stand.postgres.url):
            if participant.is_quick or not effort.is_quick:
                self._start(participant)
        stand.redis_idle = _idle(stand.valkey.child.pid)

    def server(self, participant: Participant) -> Server:
        """Where it listens."""
        return self._servers[participant.name]

    def loop(self, participant: Participant, load: Load) -> LoopFigures:
        """A run of wrk on a participant. Raises LoadError, ChildError."""
        return run(self.stand, self.server(participant), load)

    @contextmanager
    def attempt(self, participant: Participant, what: str) -> Iterator[None]:
        """Measure one thing: a participant who fails at it must not cost the whole run."""
        sys.stderr.write(f"{participant.name}: {what}\n")
        try:
            yield
        except (LoadError, ChildError, OSError) as error:
            reason = str(error).splitlines()[-1].strip()
            self.remarks.append(f"{participant.title} failed once at: {what} ({reason}).")

    def mixed(self) -> list[Sender]:
        """One sender with plenty and one without in turn: half of all is denied."""
        each = len(self.plenty) // len(self.tight)
        return [one for pair in zip(self.plenty, self.tight * each, strict=True) for one in pair]

    def require_decided(self) -> None:
        """Ibex admitted nothing without a decision, and everything is settled."""
        for name in (IBEX, IBEX_2):
            if name in self._servers:
                for _ in range(ASKED_EACH):
                    _require_decided(self._servers[name].port)

    def _start(self, participant: Participant) -> None:
        try:
            server = participant.start(self.stand)
        except MissingError as error:
            self.remarks.append(f"{participant.title} is left out: {error}.")
            return
        self.participants.append(participant)
        self._servers[participant.name] = server
        self.rest[participant.name] = memory_bytes(server.pid)
        seconds = SLOW_WARM_UP_S if participant.is_slow else WARM_UP_S
        self.loop(participant, Load(self.plenty, WARM_UP_CONNECTIONS, seconds))


def _idle(pid: int) -> float:
    """CPU seconds per second of a server to whom nobody sends anything."""
    before = cpu_s(pid)
    time.sleep(IDLE_S)
    return (cpu_s(pid) - before) / IDLE_S


def _require_decided(port: int) -> None:
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while (limiter := _limiter(port))["unsettled"]:
        assert time.monotonic() < deadline, limiter
        time.sleep(0.05)
    assert limiter["state"] == "deciding", limiter
    assert not any(limiter[n] for n in ("admitted_open", "broken", "settlements_lost")), limiter


def _limiter(port: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        found: dict[str, Any] = json.loads(connection.getresponse().read())["limiter"]
        return found
    finally:
        connection.close()

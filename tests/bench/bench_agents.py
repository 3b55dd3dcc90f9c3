"""100,000 agents instead of 100: the start, the memory, and what a request costs then."""

import asyncio
import random
import sys
import time

import msgspec
from closed_loop import Load, LoopFigures, run
from consumption import memory_bytes
from field import AGENTS, Field
from participants import IBEX, ibex
from senders import database, provision
from stand import typical
from tables import count, micros, table

MANY = 100_000
CONNECTIONS = 32
NAME = "ibex_many"


class AgentFigures(msgspec.Struct, frozen=True):
    """Ibex with few agents and with many."""

    start_s: float
    """Until it answers, with many."""
    rest_bytes: int
    few: LoopFigures
    many: LoopFigures


def measure(field: Field) -> AgentFigures:
    """The typical figures; agents are drawn by lot."""
    sys.stderr.write(f"{MANY} agents\n")
    stand = field.stand
    url = asyncio.run(database(stand.postgres.url, NAME))
    senders = [sender for sender in asyncio.run(provision(url, MANY)) if not sender.is_tight]
    random.shuffle(senders)
    began = time.monotonic()
    server = ibex(stand, 1, url, NAME)
    start_s = time.monotonic() - began
    rest_bytes = memory_bytes(server.pid)
    (one,) = [it for it in field.participants if it.name == IBEX]
    few, many = [], []
    for _ in range(field.effort.rounds):
        seconds = field.effort.seconds
        few.append(field.loop(one, Load(field.plenty, CONNECTIONS, seconds)))
        many.append(run(stand, server, Load(senders, CONNECTIONS, seconds)))
        assert not many[-1].denied, "all of them are known, and none has used its limit up"
    return AgentFigures(start_s, rest_bytes, typical(few), typical(many))


def text(field: Field, it: AgentFigures) -> str:
    """The section."""
    rows = [
        (
            f"{agents:,} agents",
            count(figures.requests_per_s),
            micros(figures.gateway_us),
            micros(figures.redis_us),
            f"{rest / 1e6:,.0f}",
        )
        for agents, figures, rest in (
            (AGENTS, it.few, field.rest[IBEX]),
            (MANY, it.many, it.rest_bytes),
        )
    ]
    head = ("", "requests/s", "CPU us/request", "Redis CPU us/request", "at rest, MB")
    start = f"With {MANY:,} agents it answers {it.start_s:.1f} s after its start."
    return f"{table(head, rows)}\n\n{start}"

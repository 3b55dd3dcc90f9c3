"""The figures as a page: ratios first, because they hold on other machines too."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import bench_agents
import bench_latency
import bench_limiter
import bench_streams
import bench_unary
import msgspec
from field import Field
from participants import DIRECT_ROW, TRAEFIK_ROW
from report_dashboard import section
from results import Results, cpu, rate, redis, targets
from tables import table, times
from tools import LITELLM, TRAEFIK, debian

from gateway.embedded import Valkey

PAGE = """\
# Benchmarks

Written by `make bench`. Ratios hold on other machines; absolute figures are this machine's, which
the load generators, the upstream and every server shared. All were measured in turn in one run;
each figure is the median of {rounds} rounds of {seconds:g} s.

{machine}
{remarks}
{picture}"""

UNARY = """\
wrk, each connection asking again when its answer is there: an OpenAI chat request of 100 agents in
turn, and an answer of 700 bytes from nginx. CPU is that of all processes of the gateway, and of the
one Redis server that all share, less what it takes when idle. "Denied" is by a limit of one request
a minute; what cannot deny has no such row. For Ibex every limit is set, keys are looked up, usage
is read and settled; the others keep one limit for each caller. "No gateway" shows what the upstream
takes.

"""
LATENCY = """\
Requests leave at a fixed rate, answered or not, each on a connection that is idle. Time runs from
when a request was due, so that a stall counts for everything that had to wait. The first row of a
rate is the upstream without a gateway; the others say what they *add* to it. "Cannot": the rate is
beyond 95 % of what the closed loop reached. "Late" is the generator's own delay.

"""
STREAMS = """\
wrk, each connection asking for the next stream when one has ended: 50 events of 190 bytes, 10 ms
apart, so that none can take less than 500 ms. Where they take much longer, the machine is full.

"""
MEMORY = """\
At rest: after the start, before the first request. Then {held:,} streams are opened ({slow} for
LiteLLM) that get an event each second. Pages that processes share are counted once.

"""


class Section(msgspec.Struct, frozen=True):
    """A part of the page."""

    title: str
    text: str


def page(field: Field, results: Results, load: float, picture: str) -> str:
    """Everything above the sections. `load`: the load average before; `picture`: its Markdown."""
    head = PAGE.format(
        rounds=field.effort.rounds,
        seconds=field.effort.seconds,
        machine=_machine(load),
        remarks="".join(f"\n{line}\n" for line in field.remarks),
        picture=picture,
    )
    return f"{head}\n{written(sections(field, results))}"


def written(parts: Sequence[Section]) -> str:
    """Sections as they stand on the page."""
    return "\n".join(f"## {part.title}\n\n{part.text}\n" for part in parts)


def sections(field: Field, results: Results) -> list[Section]:
    """What the figures say."""
    memory = MEMORY.format(held=bench_streams.HELD, slow=bench_streams.HELD_BY_SLOW)
    return [
        Section("Targets", _targets(results)),
        Section("Against Traefik with its Redis rate limit", _ratios(field, results)),
        Section("One request, one answer", UNARY + bench_unary.text(field, results.unary)),
        Section("Latency at a fixed rate", LATENCY + bench_latency.text(field, results.latency)),
        Section("Streams", STREAMS + bench_streams.text(field, results.streams)),
        Section("Memory", memory + bench_streams.memory_text(field, results.held)),
        Section("Many agents", bench_agents.text(field, results.agents)),
        Section("The limiter alone", bench_limiter.text(results.limiter)),
        Section("The operators' pages", section(results.dashboard)),
    ]


def _machine(load: float) -> str:
    nginx = subprocess.run([debian("nginx"), "-v"], check=True, capture_output=True, text=True)
    rows = [
        ("date", f"{datetime.now(UTC):%Y-%m-%d}"),
        ("CPU", f"{_cpu()}, {os.cpu_count()} cores"),
        ("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
        ("Redis", f"{Valkey.__name__}, append-only file flushed every second"),
        ("others", f"{nginx.stderr.strip().rpartition(': ')[2]}, {TRAEFIK}, {LITELLM}"),
        ("load average before", f"{load:.2f}"),
    ]
    return table(("machine", ""), rows)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _targets(results: Results) -> str:
    rows = [
        (
            it.what,
            f"{times(it.found, 1)} {it.unit}".strip(),
            f"{it.aim:g}",
            f"{it.worst:g}",
            it.verdict,
        )
        for it in targets(results)
    ]
    note = (
        "Two workers can serve twice as much only where the load generator, Redis and the upstream"
        " have cores of their own; the last line leaves those out."
    )
    return f"{table(('', 'found', 'aim', 'at worst', ''), rows)}\n\n{note}"


def _ratios(field: Field, results: Results) -> str:
    usual, refused, stream = (
        get(TRAEFIK_ROW) for get in (results.usual, results.refused, results.streamed)
    )
    rows = []
    for it in field.participants:
        if it.name == DIRECT_ROW:
            continue
        mine, denied = results.usual(it.name), results.refused(it.name)
        streamed, added = results.streamed(it.name), results.added_p99(it.name)
        rows.append(
            (
                it.title,
                times(rate(mine), rate(usual)),
                times(cpu(mine), cpu(usual)),
                times(redis(mine) if it.limits else None, redis(usual)),
                times(cpu(denied), cpu(refused)),
                times(cpu(streamed), cpu(stream)),
                times(added, results.added_p99(TRAEFIK_ROW)),
                times(results.held.get(it.name), results.held.get(TRAEFIK_ROW)),
            )
        )
    head = (
        "times Traefik's",
        "requests/s",
        "CPU, admitted",
        "Redis CPU, admitted",
        "CPU, denied",
        "CPU, stream",
        "p99 added at 2,000/s",
        "memory per stream",
    )
    return table(head, rows)

"""All figures of one run, and what they are held against."""

import math
from typing import NamedTuple

import bench_agents
import bench_latency
import bench_streams
import bench_unary
import msgspec
from bench_dashboard import Dashboard
from bench_limiter import LimiterFigures
from closed_loop import LoopFigures
from participants import IBEX, IBEX_2, LITELLM_ROW, TRAEFIK_ROW

TRAEFIK = "against Traefik + Redis"


class Results(msgspec.Struct, frozen=True):
    """By section. Rows of participants who were left out are missing."""

    unary: bench_unary.Figures
    latency: bench_latency.Figures
    streams: bench_streams.Figures
    held: dict[str, float]
    """Bytes for each open stream."""
    agents: bench_agents.AgentFigures
    limiter: LimiterFigures
    dashboard: Dashboard

    def usual(self, name: str) -> LoopFigures | None:
        """32 connections, all admitted."""
        return self.unary.get((name, bench_unary.USUAL))

    def refused(self, name: str) -> LoopFigures | None:
        """32 connections, all denied."""
        return self.unary.get((name, bench_unary.REFUSED))

    def streamed(self, name: str) -> LoopFigures | None:
        """64 streams."""
        return self.streams.get((name, bench_streams.USUAL))

    def added_p99(self, name: str) -> float | None:
        """Milliseconds added to no gateway at 2,000 requests a second; infinite where it cannot."""
        if self.usual(name) is None:
            return None
        it = bench_latency.added(self.latency, name, bench_latency.USUAL)
        return it.p99_ms if it else math.inf


class Target(NamedTuple):
    """A figure, what it is aimed at, and the worst that will do."""

    what: str
    found: float | None
    aim: float
    worst: float
    unit: str = ""
    more_is_better: bool = False

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not measured"
        sign = -1 if self.more_is_better else 1
        if self.found * sign <= self.aim * sign:
            return "met"
        return "within" if self.found * sign <= self.worst * sign else "**missed**"


def targets(it: Results) -> list[Target]:
    """What this project has set itself."""
    ibex, two, litellm = (it.usual(name) for name in (IBEX, IBEX_2, LITELLM_ROW))
    against = {
        "CPU per request, admitted": (it.usual, 1.0, 1.3),
        "CPU per request, denied": (it.refused, 0.8, 1.1),
        "CPU per stream of 50 events": (it.streamed, 0.9, 1.1),
    }
    added = ratio(it.added_p99(IBEX), it.added_p99(TRAEFIK_ROW))
    many = ratio(cpu(it.agents.many), cpu(it.agents.few))
    faster, held = ratio(rate(ibex), rate(litellm)), ratio(it.held.get(IBEX), 1e3)
    more = "two workers against one"
    return [
        *(
            Target(f"{what}, {TRAEFIK}", ratio(cpu(get(IBEX)), cpu(get(TRAEFIK_ROW))), aim, worst)
            for what, (get, aim, worst) in against.items()
        ),
        Target(f"p99 added at 2,000/s, {TRAEFIK}", added, 1.0, 1.5),
        Target("requests/s, against LiteLLM", faster, 60, 40, "", True),
        Target("Redis CPU per request, admitted", redis(ibex), 15, 25, "us"),
        Target("CPU per request, 100,000 agents against 100", many, 1.0, 1.1),
        Target("memory per open stream", held, 40, 80, "kB"),
        Target("start with 100,000 agents", it.agents.start_s, 3, 8, "s"),
        Target(f"requests/s, {more}", ratio(rate(two), rate(ibex)), 1.8, 1.8, "", True),
        Target(f"the same by CPU per request, {more}", _workers(ibex, two), 1.8, 1.8, "", True),
    ]


def cpu(it: LoopFigures | None) -> float | None:
    """The gateway's microseconds per request."""
    return it.gateway_us if it else None


def redis(it: LoopFigures | None) -> float | None:
    """Redis' microseconds per request."""
    return it.redis_us if it else None


def rate(it: LoopFigures | None) -> float | None:
    """Requests per second."""
    return it.requests_per_s if it else None


def _workers(one: LoopFigures | None, two: LoopFigures | None) -> float | None:
    """How much more two workers could do, if everything else had cores of its own."""
    found = ratio(cpu(one), cpu(two))
    return found and 2 * found


def ratio(it: float | None, against: float | None) -> float | None:
    """None where one is not known, or there is nothing to compare with."""
    return it / against if it is not None and against and 0 < against < math.inf else None

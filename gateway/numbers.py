"""What one worker counts: plain numbers in memory, and the names by which they are told.

Every label has few values: upstreams from the settings, outcomes and levels from fixed sets. No
organization, agent, path or model is ever a label.
"""

from bisect import bisect_left
from collections import defaultdict
from typing import Literal, NamedTuple

Kind = Literal["counter", "histogram", "sum", "max", "min"]
"""The last three are gauges, and say how those of several workers become one."""
Key = tuple[str, ...]

BOUNDS_S = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip


class Family(NamedTuple):
    """One metric: its kind, its labels, and what it means."""

    kind: Kind
    labels: tuple[str, ...]
    help: str


REQUESTS = "ibex_requests_total"
DENIED = "ibex_denied_total"
FAILURES = "ibex_upstream_failures_total"
LEFT = "ibex_clients_left_total"
TOKENS = "ibex_tokens_total"
DURATION = "ibex_request_seconds"
LIMITER = "ibex_limiter_seconds"
FIRST_BYTE = "ibex_first_byte_seconds"
UPSTREAM = "ibex_upstream_seconds"

FAMILIES: dict[str, Family] = {
    REQUESTS: Family(
        "counter",
        ("upstream", "outcome", "status"),
        "Agents' requests that have ended, by outcome and class of the status that was sent.",
    ),
    DENIED: Family("counter", ("level",), "Requests that were denied, by the level that did."),
    FAILURES: Family(
        "counter",
        ("upstream",),
        "Requests whose upstream was unreachable or silent, or broke off its answer.",
    ),
    LEFT: Family("counter", ("upstream",), "Requests whose client left before the end."),
    TOKENS: Family(
        "counter", ("upstream", "source"), "Tokens used, as reported by the upstream or estimated."
    ),
    DURATION: Family("histogram", ("upstream",), "From a request's head to its end."),
    LIMITER: Family("histogram", (), "Wait for the limiter's decision."),
    FIRST_BYTE: Family(
        "histogram", ("upstream",), "From a request's head to the head of its upstream's answer."
    ),
    UPSTREAM: Family(
        "histogram", ("upstream",), "From forwarding a request to the end of what came back."
    ),
    "ibex_admitted_open_total": Family("counter", (), "Requests admitted without a decision."),
    "ibex_limiter_broken_total": Family(
        "counter", (), "Script errors, and keys of the limiter that had to be replaced."
    ),
    "ibex_settlements_lost_total": Family("counter", (), "Settlements that were given up."),
    "ibex_limiter_open": Family("max", (), "1 while a worker does not ask Redis."),
    "ibex_open_requests": Family("sum", (), "Admitted requests under way."),
    "ibex_spool_size": Family("sum", (), "Settlements that are not counted in Redis yet."),
    "ibex_snapshot_age_seconds": Family(
        "max", (), "Time since keys and limits were last compared with Postgres."
    ),
    "ibex_snapshot_version": Family(
        "min", (), "Sum of all organizations' versions; of the worker that knows least."
    ),
    "ibex_snapshot_stale": Family("max", (), "1 while keys and limits cannot be loaded."),
    "ibex_changes_heard": Family("min", (), "0 while a worker has to poll for changes."),
    "ibex_ledger_lag_seconds": Family("max", (), "Age of the newest whole copy in the ledger."),
    "ibex_workers": Family("sum", (), "Workers that run."),
    "process_cpu_seconds_total": Family("counter", (), "Processor time used."),
    "process_resident_memory_bytes": Family("sum", (), "Memory used."),
    "process_open_fds": Family("sum", (), "Open file descriptors."),
    "python_gc_collections_total": Family("counter", ("generation",), "Garbage collections."),
}


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total = 0.0


class Numbers:
    """Counters and histograms of one worker. A key is a family's name and its label values."""

    def __init__(self) -> None:
        self._counters: defaultdict[Key, float] = defaultdict(float)
        self._histograms: defaultdict[Key, _Histogram] = defaultdict(_Histogram)

    def add(self, key: Key, amount: float = 1) -> None:
        """Count more."""
        self._counters[key] += amount

    def observe(self, key: Key, seconds: float) -> None:
        """Count one duration."""
        histogram = self._histograms[key]
        histogram.counts[bisect_left(BOUNDS_S, seconds)] += 1
        histogram.total += seconds

    def samples(self) -> dict[str, float]:
        """Every number by its full name. All of them only grow, so workers' may be added up."""
        found = {sample(name, values): value for (name, *values), value in self._counters.items()}
        for (name, *values), histogram in self._histograms.items():
            reached = 0
            for bound, count in zip((*BOUNDS_S, "+Inf"), histogram.counts, strict=True):
                reached += count
                found[sample(name, values, "_bucket", le=str(bound))] = reached
            found[sample(name, values, "_sum")] = histogram.total
            found[sample(name, values, "_count")] = reached
        return found


def sample(name: str, values: list[str], suffix: str = "", **more: str) -> str:
    """A sample's name with its labels, as Prometheus writes it; no value needs escaping."""
    labels = {**dict(zip(FAMILIES[name].labels, values, strict=True)), **more}
    inner = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{suffix}{{{inner}}}" if inner else name + suffix

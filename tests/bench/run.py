"""`make bench`: starts everything itself on loopback, measures, prints a page and keeps it.

With `--quick` it takes under two minutes, measures Ibex and Traefik at the usual points only, and
keeps nothing: its figures tell whether a change was for the better, no more.
"""

import argparse
import os
import resource
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import bench_agents
import bench_dashboard
import bench_latency
import bench_limiter
import bench_streams
import bench_unary
from field import Field
from picture import draw
from report import page
from results import Results
from stand import Effort, Stand
from tools import MissingError

FULL = Effort(rounds=3, seconds=5)
QUICK = Effort(rounds=1, seconds=2, is_quick=True)
DOCS = Path(__file__).parents[2] / "docs"
KEPT, PICTURE = DOCS / "benchmarks.md", DOCS / "benchmarks.svg"
ALT = "CPU per request of each gateway and of Redis"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under two minutes; keeps nothing")
    is_quick: bool = parser.parse_args().quick
    load = os.getloadavg()[0]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # 1,000 streams, for servers too
    with ExitStack() as exits:
        home = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ibex-bench-")))
        try:
            field = Field(Stand(home, exits), QUICK if is_quick else FULL)
        except MissingError as error:
            sys.exit(f"error: {error}")
        results = measure(field)
        has_picture = not is_quick and draw(field, results, PICTURE)
        text = page(field, results, load, f"\n![{ALT}]({PICTURE.name})\n" if has_picture else "")
    sys.stdout.write(text)
    if not is_quick:
        KEPT.write_text(text)


def measure(field: Field) -> Results:
    """Everything, one thing at a time; memory first, while the servers are fresh."""
    held = bench_streams.held(field)
    unary = bench_unary.measure(field)
    latency = bench_latency.measure(field, unary)
    streams = bench_streams.measure(field)
    agents = bench_agents.measure(field)
    field.require_decided()
    limiter = bench_limiter.measure(field.stand, field.effort)
    dashboard = bench_dashboard.measure(field.stand, field.effort)  # last: it adds agents
    return Results(unary, latency, streams, held, agents, limiter, dashboard)


if __name__ == "__main__":
    main()

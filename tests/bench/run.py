"""`make bench`: starts everything itself on loopback, measures, prints a page and keeps it.

With `--quick` it takes under a minute and only prints: its figures are not worth keeping.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import bench_dashboard
import bench_limiter
import bench_proxy
from chat import ANSWER_BYTES
from report import page
from stand import Effort, Stand

from lua.connection import RedisAddress, connect

FULL = Effort(rounds=3, seconds=6)
QUICK = Effort(rounds=1, seconds=2)
KEPT = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute; keeps nothing")
    is_quick: bool = parser.parse_args().quick
    load = os.getloadavg()[0]
    text = measure(QUICK if is_quick else FULL, load)
    sys.stdout.write(text)
    if not is_quick:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(text)


def measure(effort: Effort, load: float) -> str:
    """Run everything and return the page. `load` is the load average before."""
    with ExitStack() as exits:
        home = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ibex-bench-")))
        stand = Stand(home, exits)
        return page(
            bench_limiter.measure(stand, effort),
            bench_proxy.measure(stand, effort),
            bench_dashboard.measure(stand, effort),
            valkey=asyncio.run(_version(stand.valkey.url)),
            load=load,
            sizes=(bench_proxy.CONNECTIONS, ANSWER_BYTES),
        )


async def _version(url: str) -> str:
    client = connect(RedisAddress(url), timeout_s=5)
    try:
        found: str = (await client.info("server"))["valkey_version"]
        return found
    finally:
        await client.aclose()


if __name__ == "__main__":
    main()

"""`make soak MINUTES=n`: mixed traffic and random faults; at the end everything has to add up.

It starts its own servers on loopback. The upstream keeps the truth: what it said that each request
used. First everything is tormented that may cost nothing, and the books have to agree; then, apart,
Redis is emptied and a worker killed, which may cost what is under way. The seed that is printed
gives the same kinds of traffic and the same order of faults again, not the same interleaving. The
exit code is 1 on any violation. With `--keep` the figures are written into docs/reliability.md.
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from random import Random

from gateway_process import GatewayProcess
from gateway_stack import Tenants
from servers import PostgresServer, RedisServer, run_apart
from soak_course import Course
from soak_faults import Patients
from soak_outcome import Report
from soak_report import keep, text
from soak_upstream import Upstream

from db.migrate import migrate

DOCS = Path(__file__).parents[2] / "docs" / "reliability.md"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--keep", action="store_true", help="write docs/reliability.md")
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    sys.stdout.flush()
    report = asyncio.run(soak(options.minutes * 60, options.seed))
    said = text(report)
    sys.stdout.write(said)
    if options.keep:
        keep(DOCS, said)
    sys.exit(1 if report.violations else 0)


async def soak(seconds: float, seed: int) -> Report:
    """Start everything, torment it for so long, and compare."""
    random = Random(seed)
    async with AsyncExitStack() as exits:
        home = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ibex-soak-")))
        upstream = Upstream(random)
        await upstream.listen()
        exits.push_async_callback(upstream.refuse)
        course = await asyncio.to_thread(_start, home, upstream, exits.enter_context(ExitStack()))
        return await course.run(seconds, seed, random)


def _start(home: Path, upstream: Upstream, exits: ExitStack) -> Course:
    redis_server, postgres = RedisServer(home / "valkey"), PostgresServer(home / "postgres")
    for server in (redis_server, postgres):
        exits.callback(server.stop)
        server.start()
    database_url = exits.enter_context(postgres.database())
    run_apart(lambda: migrate(database_url))
    at = f"http://127.0.0.1:{upstream.port}"
    gateway = GatewayProcess(
        home / "gateway.log",
        {
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_server.url,
            "LIMITER_DEADLINE_MS": "500",  # a busy machine is not an outage
            "UPSTREAM_IDLE_TIMEOUT_S": "2",
            **{f"UPSTREAM_{name}_URL": at for name in ("OPENAI", "ANTHROPIC")},
            **{f"UPSTREAM_{name}_KEY": "sk-soak" for name in ("OPENAI", "ANTHROPIC")},
        },
        "--workers",
        "2",
    )
    exits.callback(gateway.stop)
    tenants = Tenants(database_url, redis_server.url)
    return Course(Patients(redis_server, postgres, upstream), gateway, tenants, database_url)


if __name__ == "__main__":
    main()

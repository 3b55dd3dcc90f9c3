"""The figures as a page: ratios first, because they hold on other machines too."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from bench_dashboard import Dashboard
from bench_proxy import CONSTANT, HTTPX, IBEX
from load import LoadFigures
from pairs import PairFigures
from report_dashboard import section
from tables import table

PROXY_NAMES = {
    CONSTANT: "Sanic, constant answer, no upstream",
    IBEX: "**Ibex**: key, limits, upstream, usage, settling",
    HTTPX: "Sanic and `httpx.AsyncClient`, nothing but forwarding",
}
WAY_NAMES = {"gathered": "**Ibex**", "single": "redis-py, a call for each"}
CLIENT_TARGET_US, SERVER_TARGET_US = 40, 25
TARGET_WAITING = 32

PAGE = """\
# Benchmarks

Written by `make bench`. Ratios hold on other machines; absolute figures are this machine's, which
the client, the load generator and every server shared.

{machine}

## Ratios

{ratios}

## The limiter

One client process against one Valkey: 200 agents in 20 organizations, drawn by lot, every limit set
and none reached. A pair is one admit and its settling. "redis-py" calls the same two scripts by
`evalsha`, once for each admit and once for each settling. "In scripts" is the server's own
statistics of script calls, "process" all CPU of its process, append-only file included. Nothing was
admitted open, and every token was found counted once.

{limiter}

{targets}

## The path of a request

{connections} connections, each kept alive and asking again when its answer is there; an OpenAI chat
request with a {answer} byte answer from a constant upstream. CPU is that of the serving process
alone: one process each. All answers were 200 and none was admitted open.

{proxy}

{dashboard}
"""


def page(
    limiter: Mapping[tuple[str, int], PairFigures],
    proxy: Mapping[str, LoadFigures],
    dashboard: Dashboard,
    *,
    valkey: str,
    load: float,
    sizes: tuple[int, int],
) -> str:
    """The whole page. `load` is the load average before; `sizes`: connections, answer bytes."""
    connections, answer = sizes
    return PAGE.format(
        machine=_machine(valkey, load),
        ratios=_ratios(limiter, proxy),
        limiter=_limiter(limiter),
        targets=_targets(limiter["gathered", TARGET_WAITING]),
        connections=connections,
        answer=answer,
        proxy=_proxy(proxy),
        dashboard=section(dashboard),
    )


def _machine(valkey: str, load: float) -> str:
    rows = [
        ("date", f"{datetime.now(UTC):%Y-%m-%d}"),
        ("CPU", f"{_cpu()}, {os.cpu_count()} cores"),
        ("Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
        ("Valkey", f"{valkey}, append-only file flushed every second"),
        ("load average before", f"{load:.2f}"),
    ]
    return table(("machine", ""), rows)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _ratios(
    limiter: Mapping[tuple[str, int], PairFigures], proxy: Mapping[str, LoadFigures]
) -> str:
    gathered, single = limiter["gathered", TARGET_WAITING], limiter["single", TARGET_WAITING]
    constant, ibex, httpx = proxy[CONSTANT], proxy[IBEX], proxy[HTTPX]
    redis_py, plain, nothing = "redis-py", "the plain httpx proxy", "Sanic's constant answer"
    rows = [
        ("pairs per second", redis_py, gathered.pairs_per_s / single.pairs_per_s),
        ("client CPU per pair", redis_py, gathered.client_us / single.client_us),
        ("server CPU per pair", redis_py, gathered.server_process_us / single.server_process_us),
        ("requests per second", plain, ibex.requests_per_s / httpx.requests_per_s),
        ("CPU per request", plain, ibex.server_us / httpx.server_us),
        ("CPU per request", nothing, ibex.server_us / constant.server_us),
    ]
    return table(
        ("Ibex's", "against", "times"),
        [(what, against, f"{ratio:.2f}") for what, against, ratio in rows],
    )


def _limiter(limiter: Mapping[tuple[str, int], PairFigures]) -> str:
    head = (
        "",
        "waiting",
        "pairs/s",
        "admit p50 ms",
        "admit p99 ms",
        "client CPU us/pair",
        "server us/pair, in scripts",
        "server CPU us/pair, process",
    )
    rows = [
        (
            WAY_NAMES[way],
            str(waiting),
            f"{it.pairs_per_s:,.0f}",
            f"{it.p50_ms:.2f}",
            f"{it.p99_ms:.2f}",
            f"{it.client_us:.1f}",
            f"{it.server_us:.1f}",
            f"{it.server_process_us:.1f}",
        )
        for (way, waiting), it in limiter.items()
    ]
    return table(head, rows)


def _targets(it: PairFigures) -> str:
    client = _verdict(it.client_us, CLIENT_TARGET_US)
    server = _verdict(it.server_us, SERVER_TARGET_US)
    return (
        f"Targets with {TARGET_WAITING} waiting: client CPU {client}; server, in scripts, {server}."
    )


def _verdict(measured_us: float, target_us: int) -> str:
    return f"at most {target_us} us: {'met' if measured_us <= target_us else 'missed'}"


def _proxy(proxy: Mapping[str, LoadFigures]) -> str:
    rows = [
        (
            PROXY_NAMES[row],
            f"{it.requests_per_s:,.0f}",
            f"{it.server_us:.0f}",
            f"{it.p50_ms:.1f}",
            f"{it.p99_ms:.1f}",
        )
        for row, it in proxy.items()
    ]
    return table(("", "requests/s", "CPU us/request", "p50 ms", "p99 ms"), rows)

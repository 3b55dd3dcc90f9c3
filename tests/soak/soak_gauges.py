"""What the processes hold: sockets, files, memory; and what is left in Redis and in Postgres."""

import statistics
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types
import redis
from processes import descendants

from lua import keys

MIB = 1024 * 1024
GROWN_MIB = 24.0
"""So much more than when it was warm a worker may hold at the end."""


@dataclass(frozen=True)
class Counted:
    """An organization's month in Redis and in Postgres, and what is still open."""

    redis: int
    held: int
    open: int
    months: int
    minutes: int
    estimated: int
    requests: int


def month_in_redis(url: str, org_id: str) -> tuple[int, int, int]:
    """Used and held tokens, and open reservations."""
    name = f"{datetime.now(UTC):%Y-%m}"
    with redis.Redis.from_url(url) as client:
        used, held = client.hmget(keys.month_tokens(org_id), [name, f"{name}:held"])
        is_open = client.zcount(keys.inflight(org_id), "(0", "+inf")
    return int(used or 0), int(held or 0), int(is_open)


async def counted(redis_url: str, database_url: str, org_id: str) -> Counted:
    """All of it, by now."""
    used, held, is_open = month_in_redis(redis_url, org_id)
    connection = await asyncpg.connect(database_url)
    try:
        months = await connection.fetchval(
            "SELECT coalesce(sum(tokens), 0) FROM ibex_core.usage_months WHERE org_id = $1", org_id
        )
        minutes, estimated, requests = await connection.fetchrow(
            "SELECT coalesce(sum(tokens), 0), coalesce(sum(estimated), 0),"
            " coalesce(sum(requests), 0) FROM ibex_core.usage_minutes"
            " WHERE org_id = $1 AND agent_id = $1",
            org_id,
        )
    finally:
        await connection.close()
    return Counted(used, held, is_open, int(months), int(minutes), int(estimated), int(requests))


@dataclass(frozen=True)
class Ports:
    """Whose connections are whose."""

    gateway: int
    redis: int
    postgres: int
    upstream: int


def descriptors(pid: int, ports: Ports) -> Counter[str]:
    """What a worker has open, by kind."""
    names = {ports.redis: "redis", ports.postgres: "postgres", ports.upstream: "upstream"}
    process = psutil.Process(pid)
    found = Counter({"all": process.num_fds()})
    for connection in process.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            found["listening"] += 1
        elif connection.raddr and connection.raddr.port in names:
            found[names[connection.raddr.port]] += 1
        else:
            found["clients"] += 1
    found["others"] = found["all"] - sum(n for name, n in found.items() if name != "all")
    return found


@dataclass
class Memory:
    """Samples of the resident memory of each worker, in MiB."""

    samples: dict[int, list[float]] = field(default_factory=dict)

    def sample(self, parent: int) -> None:
        """One more of each worker there is."""
        for pid in descendants(parent):
            with suppress(psutil.NoSuchProcess):
                size = psutil.Process(pid).memory_info().rss / MIB
                self.samples.setdefault(pid, []).append(size)

    def growth(self) -> list[tuple[float, float]]:
        """Of each worker: what it held when it was warm (the second fifth), and at the end."""
        found = []
        for sizes in self.samples.values():
            fifth = max(1, len(sizes) // 5)
            warm = statistics.median(sizes[fifth : 2 * fifth] or sizes)
            found.append((warm, statistics.median(sizes[-fifth:])))
        return found


def port_of(url: str) -> int:
    """The port that a URL names."""
    port = urlsplit(url).port
    assert port is not None
    return port

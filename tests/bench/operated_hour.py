"""Organizations with a busy hour behind them, for pages to show."""

import random
import struct
import time
from collections.abc import Iterator, Sequence

import asyncpg
import msgspec
from msgspec import field

from db.migrate import migrate
from db.repository import Repository, connect
from graphql_api.service import Service
from lua import keys
from lua.connection import RedisAddress
from lua.connection import connect as connect_redis

MINUTES = 60
RPM = 60
TTL_S = 7200
AGENTS = """
    INSERT INTO ibex_core.agents (org_id, name)
    SELECT $1, format('agent %s', number) FROM generate_series(1, $2) AS number
    RETURNING id::text
"""
LIMITS = """
    INSERT INTO ibex_core.rate_limit_overrides (org_id, agent_id, requests_per_minute)
    SELECT org_id, id, $2 FROM ibex_core.agents WHERE org_id = $1
"""


class Operated(msgspec.Struct, frozen=True):
    """An organization, one of its agents, and a platform operator's key."""

    organization_id: str
    agent_id: str
    platform_key: str = field(default="")

    def __repr__(self) -> str:
        return f"Operated({self.organization_id})"


async def operate(database_url: str, redis_url: str, sizes: Sequence[int]) -> list[Operated]:
    """An organization of each size, in agents, all of which were busy for an hour."""
    await migrate(database_url)
    pool = await connect(database_url, min_size=1, max_size=1)
    try:
        service = Service(Repository(pool), _nobody_to_tell)
        key = (await service.issue_platform_key()).value.key
        found = []
        for size in sizes:
            org_id = (await service.create_organization(f"{size} agents")).id
            agents = await _agents(pool, org_id, size)
            await _write_hours(redis_url, org_id, agents)
            found.append(Operated(org_id, agents[0], key))
        return found
    finally:
        await pool.close()


async def _nobody_to_tell(_org_id: str) -> bool:
    """The gateway is started afterwards."""
    return True


async def _agents(pool: asyncpg.Pool, org_id: str, count: int) -> list[str]:
    rows = await pool.fetch(AGENTS, org_id, count)
    await pool.execute(LIMITS, org_id, RPM)
    return [row["id"] for row in rows]


async def _write_hours(redis_url: str, org_id: str, agents: Sequence[str]) -> None:
    """A ring for each agent and one for the organization, as the scripts keep them."""
    client = connect_redis(RedisAddress(redis_url), timeout_s=30)
    try:
        async with client.pipeline(transaction=False) as pipeline:
            for ring in _rings(org_id, agents):
                pipeline.hset(ring, mapping=_hour(random.Random(ring)))
                pipeline.expire(ring, TTL_S)
            await pipeline.execute()
    finally:
        await client.aclose()


def _rings(org_id: str, agents: Sequence[str]) -> Iterator[str]:
    yield keys.GLOBAL_RING
    yield keys.org_ring(org_id)
    yield from (keys.agent_ring(org_id, agent) for agent in agents)


def _hour(lot: random.Random) -> dict[str, bytes]:
    """The series of a ring (see lua/series.lua): a base minute, and sixty counts up to it."""
    now = int(time.time()) // 60
    requests = [lot.randint(0, RPM) for _ in range(MINUTES)]
    denied = [lot.choice((0, 0, 0, 12)) for _ in range(MINUTES)]
    tokens = [count * 700 for count in requests]
    return {
        "minutes": struct.pack(f">I{MINUTES}I", now, *requests),
        "tokens": struct.pack(f">I{MINUTES}Q", now, *tokens),
        "denied:agent": struct.pack(f">I{MINUTES}I", now, *denied),
    }

"""What a Redis server says of itself, for those who set it up."""

import time
from typing import NamedTuple

from redis.asyncio import Redis

from lua.connection import refuse_cluster
from lua.errors import limiter_errors
from lua.scripts import ADMIT, COMMIT


class ServerFacts(NamedTuple):
    """`policy` is what is done without memory. `skew_s`: how far its clock is ahead of ours."""

    version: str
    policy: str
    is_primary: bool
    keeps_data: bool
    skew_s: float


async def server_facts(client: Redis) -> ServerFacts:
    """Ask it, and load the scripts. Raises LimiterError or ClusterRefusedError.

    INFO tells all of it; many managed servers refuse CONFIG.
    """
    await refuse_cluster(client)
    await ADMIT.load(client)
    await COMMIT.load(client)
    with limiter_errors(may_have_run=False):
        info = await client.info()
        before = time.time()
        seconds, microseconds = await client.time()
    middle = (before + time.time()) / 2
    return ServerFacts(
        str(info.get("redis_version", "0")),
        str(info.get("maxmemory_policy", "noeviction")),
        info.get("role") == "master",
        bool(info.get("aof_enabled")) or info.get("rdb_last_save_time", 0) > 0,
        seconds + microseconds / 1e6 - middle,
    )

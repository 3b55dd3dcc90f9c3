"""What can happen to Redis."""

import time
from typing import Any

import redis
from outage_leg import IN_FLIGHT, Leg
from outage_rig import Rig
from raw_calls import obeys
from servers import RedisServer, connect, eventually
from traffic import command

from lua import keys

KEYS_TO_LOAD = 20_000
LOAD_DELAY_US = 1
CHANGED = 999_999
SLOW_S = 0.07


def kill(rig: Rig) -> None:
    rig.redis.kill()


def restart_empty(rig: Rig) -> None:
    """As one without a disk comes back."""
    rig.redis.replace_data(None)
    rig.redis.start()


def keep_a_copy_and_kill(rig: Rig) -> None:
    """The copy is some traffic older than the end."""
    rig.redis.copy_data(rig.home / "copy")
    time.sleep(0.5)
    rig.redis.kill()


def restore_the_copy(rig: Rig) -> None:
    rig.redis.replace_data(rig.home / "copy")
    rig.redis.start()


def load_slowly(rig: Rig) -> None:
    """Start it over a data set that takes a second to be read."""
    with connect(rig.redis.url) as client:
        pipeline = client.pipeline(transaction=False)
        for number in range(KEYS_TO_LOAD):
            pipeline.set(f"filler:{number}", number, px=60_000)
        pipeline.execute()
    rig.redis.stop()
    rig.redis.start_slowly(LOAD_DELAY_US)


def loaded(rig: Rig) -> None:
    assert eventually(lambda: _answers(rig.redis), 20)


def _answers(server: RedisServer) -> bool:
    try:
        with connect(server.url) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def attach_a_replica(rig: Rig) -> None:
    """A second server that has everything the first has, and follows it."""
    rig.spare = rig.new_redis()
    rig.spare.start()
    for server in (rig.redis, rig.spare):
        password = (server.home / "password").read_text()
        command(server, "CONFIG", "SET", "masterauth", password)
        command(server, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
    command(rig.spare, "REPLICAOF", "127.0.0.1", rig.redis.port)
    assert eventually(lambda: _replication(rig.spare).get("master_link_status") == "up", 20)
    assert eventually(lambda: _is_followed(rig.redis), 20)


def _is_followed(server: RedisServer) -> bool:
    return _replication(server).get("slave0", {}).get("state") == "online"


def promote_the_replica(rig: Rig) -> None:
    """It takes over behind the same address, as a managed failover does; its scripts are lost."""
    command(rig.spare, "REPLICAOF", "NO", "ONE")
    command(rig.spare, "SCRIPT", "FLUSH")
    _take_over(rig)


def hand_over(rig: Rig) -> None:
    """The primary becomes a replica in good order; connections to it stand."""
    command(rig.redis, "FAILOVER")
    assert eventually(lambda: _replication(rig.redis)["role"] == "slave", 10)
    assert eventually(lambda: _replication(rig.spare)["role"] == "master", 10)
    _take_over(rig)


def _take_over(rig: Rig) -> None:
    rig.redis, rig.spare = rig.spare, rig.redis
    rig.proxy.lead_to(rig.redis.port)


def _replication(server: RedisServer) -> dict[str, Any]:
    found: dict[str, Any] = command(server, "INFO", "replication")
    return found


def demote(rig: Rig) -> None:
    """It refuses writes, and nobody takes over."""
    command(rig.redis, "REPLICAOF", "127.0.0.1", 1)


def fill_up(rig: Rig) -> None:
    command(rig.redis, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    command(rig.redis, "CONFIG", "SET", "maxmemory", 1)


def spoil_keys(rig: Rig) -> None:
    """Somebody else writes to each key of the organization."""
    org_id = rig.latest.id
    agents = [keys.agent_ring(org_id, agent.id) for agent in rig.latest.agents]
    for key in (*agents, keys.org_ring(org_id), keys.month_tokens(org_id), keys.inflight(org_id)):
        command(rig.redis, "SET", key, "foreign")


def silence_the_subscription(rig: Rig) -> None:
    """The connection stands, and what is published does not arrive. Then a limit is changed."""
    with connect(rig.redis.url) as client:
        for subscriber in client.client_list(_type="pubsub"):
            rig.proxy.silence(int(subscriber["addr"].rpartition(":")[2]))
    rig.stack.tenants.limit(rig.latest, rpm=CHANGED)


def obeyed(rig: Rig, _mended: float) -> bool:
    """Whether the gateway obeys the limit that it was not told."""
    return obeys(rig.stack, rig.latest.agent, {"org": CHANGED})


LEGS = [
    Leg("Redis refused", lambda rig: rig.redis.stop(), lambda rig: rig.redis.start()),
    Leg("Redis frozen", lambda rig: rig.redis.freeze(), lambda rig: rig.redis.thaw()),
    Leg(
        "Redis slow: 70 ms",
        lambda rig: rig.proxy.delay_replies(SLOW_S),
        lambda rig: rig.proxy.heal(),
    ),
    Leg("Redis restarted empty", kill, restart_empty, loses=IN_FLIGHT),
    Leg(
        "Redis restored older", keep_a_copy_and_kill, restore_the_copy, loses=IN_FLIGHT, holds=True
    ),
    Leg("Redis loading", load_slowly, loaded),
    Leg(
        "replica promoted",
        kill,
        promote_the_replica,
        prepares=attach_a_replica,
        loses=IN_FLIGHT,
    ),
    Leg("primary demoted, replica takes over", hand_over, prepares=attach_a_replica),
    Leg(
        "primary demoted, nobody takes over",
        demote,
        lambda rig: command(rig.redis, "REPLICAOF", "NO", "ONE"),
    ),
    Leg(
        "Redis out of memory",
        fill_up,
        lambda rig: command(rig.redis, "CONFIG", "SET", "maxmemory", 0),
    ),
    Leg(
        "connections cut inside replies",
        lambda rig: rig.proxy.cut_inside_replies(),
        lambda rig: rig.proxy.heal(),
    ),
    Leg("FLUSHALL", lambda rig: command(rig.redis, "FLUSHALL"), loses=IN_FLIGHT, opens=False),
    Leg("SCRIPT FLUSH", lambda rig: command(rig.redis, "SCRIPT", "FLUSH"), opens=False),
    Leg("keys of the wrong type", spoil_keys, loses=IN_FLIGHT, opens=False),
    Leg(
        "pub/sub silently dead",
        silence_the_subscription,
        recovered=obeyed,
        opens=False,
    ),
]

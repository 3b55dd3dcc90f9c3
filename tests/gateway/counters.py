"""What an organization's traffic has left in Redis."""

import struct
from datetime import UTC, datetime
from typing import Any

import redis
from gateway_stack import Agent, Stack, Tenant
from servers import eventually

from lua import keys


class Counters:
    """The live numbers of one organization, by their keys."""

    def __init__(self, stack: Stack, tenant: Tenant) -> None:
        self._url = stack.redis.url
        self._tenant = tenant

    def tokens(self) -> int:
        """Used this month."""
        return self._month("")

    def held(self) -> int:
        """Reserved by open requests."""
        return self._month(":held")

    def open(self) -> int:
        """Reservations that are neither settled nor lapsed."""
        with redis.Redis.from_url(self._url) as client:
            return int(client.zcount(keys.inflight(self._tenant.id), "(0", "+inf"))

    def requests(self, agent: Agent | None = None) -> int:
        """Counted in the window, of an agent or of the organization."""
        key = keys.org_ring(self._tenant.id)
        if agent:
            key = keys.agent_ring(self._tenant.id, agent.id)
        with redis.Redis.from_url(self._url) as client:
            packed = client.hget(key, "seconds")
        return int.from_bytes(packed[4:8], "big") if packed else 0

    def age(self, agent: Agent, seconds: int) -> None:
        """Move the agent's window back in time, as if its requests had been made earlier."""
        key = keys.agent_ring(self._tenant.id, agent.id)
        with redis.Redis.from_url(self._url) as client:
            packed = client.hget(key, "seconds")
            assert packed
            base, used, oldest = struct.unpack(">3I", packed[:12])
            moved = struct.pack(">3I", base - seconds, used, oldest - seconds)
            client.hset(key, "seconds", moved + packed[12:])

    def settled(self, tokens: int) -> bool:
        """Whether everything comes to be settled, and the month then counts just these tokens."""
        assert eventually(lambda: (self.held(), self.open()) == (0, 0) and self.tokens() >= tokens)
        return self.tokens() == tokens

    def everything(self) -> dict[str, Any]:
        """Every key of the organization with its content, but for denied counts: nothing is decided
        by them, and they arrive some seconds later.
        """
        found: dict[str, Any] = {}
        with redis.Redis.from_url(self._url, decode_responses=False) as client:
            for key in client.keys(f"ratelimit:{self._tenant.id}:*"):
                is_set = client.type(key) == b"zset"
                content = (
                    client.zrange(key, 0, -1, withscores=True)
                    if is_set
                    else _undenied(client.hgetall(key))
                )
                if content:
                    found[key.decode()] = content
        return found

    def _month(self, suffix: str) -> int:
        field = f"{datetime.now(UTC):%Y-%m}{suffix}"
        with redis.Redis.from_url(self._url) as client:
            return int(client.hget(keys.month_tokens(self._tenant.id), field) or 0)


def _undenied(fields: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in fields.items() if not name.startswith(b"denied:")}

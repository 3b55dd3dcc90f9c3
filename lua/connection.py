"""How Ibex connects to Redis: no retries inside the driver, short timeouts, TLS as configured."""

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from lua.errors import limiter_errors


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`redis://` or `rediss://` URL, and how the server's certificate is checked."""

    url: str
    ca_file: str = ""
    tls_verify: bool = True

    def __repr__(self) -> str:
        return f"RedisAddress({self.url.rpartition('@')[2]})"


class ClusterRefusedError(Exception):
    """REDIS_URL is a cluster: the platform's ring cannot share a slot with every organization's."""


def connect(address: RedisAddress, *, timeout_s: float) -> Redis:
    """A client with its own pool. A call that gets no answer in `timeout_s` drops its connection.

    The driver would repeat a call whose answer got lost; a script that counts must not run twice.
    It would also listen for a vendor's maintenance notices, and for their sake take a connection
    that the server has closed for one that has something to say: the next call would fail.
    """
    tls: dict[str, Any] = {}
    if address.url.startswith("rediss://"):
        tls["ssl_cert_reqs"] = "required" if address.tls_verify else "none"
        tls["ssl_check_hostname"] = address.tls_verify
        if address.ca_file:
            tls["ssl_ca_certs"] = address.ca_file
    return Redis.from_url(
        address.url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        socket_keepalive=True,
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
        **tls,
    )


async def refuse_cluster(client: Redis) -> None:
    """Raise ClusterRefusedError for a cluster, LimiterUnavailableError where nobody answers."""
    with limiter_errors(may_have_run=False):
        info = await client.info("cluster")
    if info.get("cluster_enabled"):
        raise ClusterRefusedError(
            "REDIS_URL names a Redis Cluster. Ibex counts the platform and every organization in "
            "one script, which needs one node: use a single primary, with Sentinel or a managed "
            "failover if you like."
        )

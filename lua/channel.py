"""The channel by which gateways hear that keys or limits changed."""

from collections.abc import AsyncGenerator

from redis.asyncio import Redis

from lua import keys
from lua.connection import RedisAddress, connect
from lua.errors import LimiterError, LimiterUnavailableError, limiter_errors
from lua.scripts import call

_PUBLISH_TIMEOUT_S = 2.0
_HEARTBEAT_S = 3.0


async def publish(address: RedisAddress, org_id: str) -> bool:
    """Tell every gateway that the organization changed. False: Redis did not take the message."""
    client = connect(address, timeout_s=_PUBLISH_TIMEOUT_S)
    try:
        await call(client, "PUBLISH", keys.config_channel(org_id), "changed")
    except LimiterError:
        return False
    finally:
        await client.aclose()
    return True


async def changes(client: Redis) -> AsyncGenerator[str | None, None]:
    """Organization ids as they change; None first, when the subscription stands.

    Raises LimiterUnavailableError when it does not, also when it went silent: the server is pinged,
    and must answer within a few seconds.
    """
    pubsub = client.pubsub()
    try:
        with limiter_errors(may_have_run=False):
            await pubsub.psubscribe(keys.CONFIG_PATTERN)
        while True:
            kind, channel = await _message(pubsub)
            if kind == "psubscribe":
                yield None
            elif kind == "pmessage":
                yield channel.rpartition(":")[2]
    finally:
        await pubsub.aclose()  # type: ignore[no-untyped-call]


async def _message(pubsub: object) -> tuple[str, str]:
    """The next message, whatever it is; silence is broken by a ping of ours."""
    for _ in range(2):
        with limiter_errors(may_have_run=False):
            message = await pubsub.get_message(timeout=_HEARTBEAT_S)  # type: ignore[attr-defined]
            if message:
                return message["type"], (message["channel"] or b"").decode(errors="replace")
            await pubsub.ping()  # type: ignore[attr-defined]
    raise LimiterUnavailableError("the subscription is silent", may_have_run=False)

"""Sessions and attempts to sign in, on every server that Ibex supports."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import redis
from recordings import Gate

from lua.connection import RedisAddress, connect
from lua.errors import LimiterBrokenError, LimiterUnavailableError
from lua.sessions import Session, SessionStore

HOUR_MS = 3_600_000


@pytest.fixture
async def store(any_redis_url: str) -> AsyncIterator[SessionStore]:
    """A store on an empty server of each flavor."""
    client = connect(RedisAddress(any_redis_url), timeout_s=5)
    yield SessionStore(client, Gate())
    await client.aclose()


def keys_of(url: str) -> dict[bytes, int]:
    """Every key, and how long it lives (ms)."""
    with redis.Redis.from_url(url) as client:
        return {key: client.pttl(key) for key in client.scan_iter("ibex:*")}


async def test_a_session_is_found_by_its_token_alone(
    store: SessionStore, any_redis_url: str
) -> None:
    """And lives on for the whole idle time whenever it is."""
    session = Session(uuid4(), 1_796_000_000_000)
    await store.put("token", session, HOUR_MS)

    assert await store.find("another", HOUR_MS) is None
    assert await store.find("token", 2 * HOUR_MS) == session

    ((name, lives_ms),) = keys_of(any_redis_url).items()
    assert b"token" not in name
    assert HOUR_MS < lives_ms <= 2 * HOUR_MS


async def test_a_session_ends_once(store: SessionStore, any_redis_url: str) -> None:
    """Ending what is not there is no error."""
    await store.put("token", Session(uuid4(), 1), HOUR_MS)

    await store.delete("token")
    await store.delete("token")

    assert await store.find("token", HOUR_MS) is None
    assert keys_of(any_redis_url) == {}


async def test_attempts_add_up_for_each_client(store: SessionStore, any_redis_url: str) -> None:
    """Up and down; what was counted lives on from the last of them."""
    assert [await store.add_attempts("a", 1, HOUR_MS) for _ in range(3)] == [1, 2, 3]
    assert await store.add_attempts("b", 1, HOUR_MS) == 1
    assert await store.add_attempts("a", -1, HOUR_MS) == 2

    lives = keys_of(any_redis_url)
    assert len(lives) == 2
    assert all(0 < lives_ms <= HOUR_MS for lives_ms in lives.values())


async def test_what_is_of_a_wrong_type_is_told_as_broken(
    store: SessionStore, any_redis_url: str
) -> None:
    """It is no outage, and no session."""
    await store.put("token", Session(uuid4(), 1), HOUR_MS)
    await store.add_attempts("a", 1, HOUR_MS)
    with redis.Redis.from_url(any_redis_url) as client:
        for key in list(client.scan_iter("ibex:*")):
            client.delete(key)
            client.rpush(key, "x")

    with pytest.raises(LimiterBrokenError):
        await store.find("token", HOUR_MS)
    with pytest.raises(LimiterBrokenError):
        await store.add_attempts("a", 1, HOUR_MS)


async def test_nothing_is_asked_while_the_gate_is_open(any_redis_url: str) -> None:
    """Whoever asks is told at once that Redis is away."""
    client = connect(RedisAddress(any_redis_url), timeout_s=5)
    gate = Gate()
    gate.is_open = True
    store = SessionStore(client, gate)

    with pytest.raises(LimiterUnavailableError):
        await store.put("token", Session(uuid4(), 1), HOUR_MS)
    with pytest.raises(LimiterUnavailableError):
        await store.find("token", HOUR_MS)
    with pytest.raises(LimiterUnavailableError):
        await store.delete("token")
    with pytest.raises(LimiterUnavailableError):
        await store.add_attempts("a", 1, HOUR_MS)

    assert keys_of(any_redis_url) == {}
    await client.aclose()

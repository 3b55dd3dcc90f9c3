"""What becomes of sessions while Redis or Postgres cannot be asked."""

from collections.abc import AsyncIterator

import pytest
import redis
from operators import world
from servers import PostgresServer, RedisServer, StartPostgres, StartRedis
from session_server import BROWSER, COOKIE, NOBODY, SIGN_IN, SIGN_OUT, Door, door

from dashboard import session
from dashboard.session import IDLE_S, LONGEST_S, UNCHECKED_KEY_S
from db.api_keys import Role
from db.migrate import migrate
from db.repository import connect

UNKNOWN = "503"


@pytest.fixture
def doomed_redis(start_redis: StartRedis) -> RedisServer:
    """To be killed."""
    return start_redis()


@pytest.fixture
def doomed_postgres(start_postgres: StartPostgres) -> PostgresServer:
    """To be killed."""
    return start_postgres()


@pytest.fixture
async def doomed(doomed_redis: RedisServer, doomed_postgres: PostgresServer) -> AsyncIterator[Door]:
    """A door on servers of its own, where our admin has signed in."""
    await migrate(doomed_postgres.url)
    pool = await connect(doomed_postgres.url, min_size=1, max_size=4)
    async with (
        world(pool, doomed_redis.url) as operated,
        door(operated, doomed_redis.url) as opened,
    ):
        await opened.sign_in()
        yield opened
    pool.terminate()


async def test_redis_gone_signs_nobody_out(doomed: Door, doomed_redis: RedisServer) -> None:
    """Whom this worker knows; it cannot tell about others, and lets nobody in."""
    admin = doomed.world.ours.admin.key_id
    assert await doomed.who() == admin

    doomed_redis.kill()

    assert [await doomed.who() for _ in range(3)] == [admin] * 3
    assert await doomed.who("A" * 43) == UNKNOWN
    answer = await doomed.sign_in(doomed.key(Role.READ_ONLY))
    assert answer.status_code == 503
    assert "Sessions are kept in Redis, which does not answer" in answer.text
    assert "set-cookie" not in answer.headers

    doomed_redis.start()
    assert (await doomed.sign_in()).status_code == 303


async def test_postgres_gone_signs_nobody_out_for_a_minute(
    doomed: Door, doomed_postgres: PostgresServer
) -> None:
    """Then nobody can say any more that its key is live, and so nothing is shown."""
    admin = doomed.world.ours.admin.key_id
    assert await doomed.who() == admin
    doomed_postgres.kill()

    doomed.clock.now += UNCHECKED_KEY_S - 1
    assert await doomed.who() == admin
    doomed.clock.now += 1
    assert await doomed.who() == UNKNOWN

    answer = await doomed.sign_in()
    assert answer.status_code == 503
    assert "The database does not answer" in answer.text
    assert [attempts for attempts, _ in doomed.pace._own.values()] == [0]
    doomed_postgres.start()
    assert await doomed.who() == admin


async def test_both_gone_is_as_postgres_gone(
    doomed: Door, doomed_redis: RedisServer, doomed_postgres: PostgresServer
) -> None:
    """A minute, and then nothing is known."""
    admin = doomed.world.ours.admin.key_id
    doomed_redis.kill()
    doomed_postgres.kill()

    doomed.clock.now += UNCHECKED_KEY_S - 1
    assert await doomed.who() == admin
    doomed.clock.now += 1
    assert await doomed.who() == UNKNOWN


async def test_a_key_that_is_revoked_meanwhile_is_signed_out(entrance: Door) -> None:
    """Postgres knows, whatever Redis says."""
    ours = entrance.world.ours
    await entrance.sign_in(entrance.key(Role.READ_ONLY))
    entrance.gate.is_open = True
    assert await entrance.who() == ours.read_only.key_id

    await entrance.world.management.revoke_key(ours.admin, ours.read_only.key_id)

    assert await entrance.who() == NOBODY


async def test_a_worker_trusts_only_whom_it_has_found_last(
    entrance: Door, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not whom Redis has told to be gone, nor more sessions than it remembers."""
    monkeypatch.setattr(session, "REMEMBERED", 2)
    tokens = []
    for _ in range(3):
        await entrance.sign_in()
        tokens.append(str(entrance.token))
        entrance.client.cookies.clear()
    async with door(entrance.world, redis_url) as other:
        for number in (0, 1, 0, 2):
            assert await other.who(tokens[number]) == entrance.world.ours.admin.key_id
        other.gate.is_open = True
        assert await other.who(tokens[1]) == UNKNOWN
        assert await other.who(tokens[0]) == entrance.world.ours.admin.key_id

        other.gate.is_open = False
        await entrance.post(SIGN_OUT, {}, {**BROWSER, "Cookie": f"{COOKIE}={tokens[0]}"})
        assert await other.who(tokens[0]) == NOBODY
        other.gate.is_open = True
        assert await other.who(tokens[0]) == UNKNOWN


@pytest.mark.parametrize("step_s", [IDLE_S, LONGEST_S])
async def test_a_session_ends_meanwhile_as_it_always_does(entrance: Door, step_s: int) -> None:
    """Not used for so long, or begun so long ago."""
    await entrance.sign_in()
    begun = entrance.clock.now
    entrance.gate.is_open = True
    for age_s in range(IDLE_S // 2, step_s, IDLE_S // 2):
        entrance.clock.now = begun + age_s
        assert await entrance.who() == entrance.world.ours.admin.key_id
    if step_s == IDLE_S:
        entrance.clock.now += IDLE_S
    else:
        entrance.clock.now = begun + LONGEST_S

    assert await entrance.who() == NOBODY


async def test_signing_out_meanwhile_is_told_as_what_it_is(entrance: Door, redis_url: str) -> None:
    """The browser forgets, this worker refuses; and once Redis is back the session ends."""
    await entrance.sign_in()
    token = str(entrance.token)
    entrance.gate.is_open = True

    answer = await entrance.post(SIGN_OUT)

    assert (answer.headers["location"], entrance.token) == (f"{SIGN_IN}?out=here", None)
    told = await entrance.client.get(answer.headers["location"])
    assert "You have signed out in this browser. Redis could not be told" in told.text
    assert await entrance.who(token) == NOBODY
    entrance.gate.is_open = False
    with redis.Redis.from_url(redis_url) as client:
        assert len(list(client.scan_iter("ibex:session:*"))) == 1
        assert await entrance.who(token) == NOBODY
        assert list(client.scan_iter("ibex:session:*")) == []


async def test_nobody_waits_for_a_redis_that_is_known_to_be_away(
    entrance: Door, redis_url: str
) -> None:
    """While the gate is open it is not asked at all."""
    await entrance.sign_in()
    entrance.gate.is_open = True
    with redis.Redis.from_url(redis_url) as client:
        client.config_resetstat()

        await entrance.who()
        await entrance.sign_in("ibex_adm_wrong")

        assert set(client.info("commandstats")) <= {"cmdstat_config|resetstat", "cmdstat_info"}

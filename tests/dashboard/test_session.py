"""A session: how it begins, what it is stored as, and every way in which it ends."""

import re

import pytest
import redis
from operators import NOWHERE
from session_server import COOKIE, NOBODY, SIGN_IN, SIGN_OUT, WHO, Door, door

from dashboard import session
from dashboard.session import IDLE_S, LONGEST_S
from db.api_keys import Role
from db.repository import Repository

DAY_S = 24 * 3600


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READ_ONLY, Role.PLATFORM])
async def test_operators_of_every_role_sign_in_with_their_key(entrance: Door, role: Role) -> None:
    """From then on pages know the key that was pasted, by its id."""
    assert await entrance.who() == NOBODY

    answer = await entrance.sign_in(entrance.key(role))

    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    viewers = {
        Role.ADMIN: entrance.world.ours.admin,
        Role.READ_ONLY: entrance.world.ours.read_only,
        Role.PLATFORM: entrance.world.platform,
    }
    assert await entrance.who() == viewers[role].key_id


async def test_redis_holds_no_token_and_no_key(entrance: Door, redis_url: str) -> None:
    """Whoever reads Redis can sign in as nobody: the token is 256 bits, stored by its hash."""
    await entrance.sign_in()
    token = str(entrance.token)

    with redis.Redis.from_url(redis_url) as client:
        (name,) = client.scan_iter("ibex:session:*")
        value, lives_ms = client.get(name), client.pttl(name)

    assert re.fullmatch(rb"ibex:session:[0-9a-f]{64}", name)
    assert isinstance(value, bytes)
    assert re.fullmatch(rb'\{"key_id":"[0-9a-f-]{36}","created_ms":[0-9]{13}\}', value)
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    assert token.encode() not in name + value
    assert 0 < lives_ms <= IDLE_S * 1000


async def test_two_sign_ins_have_nothing_in_common(entrance: Door) -> None:
    """Two browsers with one key have two sessions; one goes, the other stays."""
    await entrance.sign_in()
    first = str(entrance.token)
    entrance.client.cookies.clear()
    await entrance.sign_in()

    await entrance.post(SIGN_OUT)

    assert await entrance.who(first) == entrance.world.ours.admin.key_id


async def test_signing_in_never_takes_over_a_session_that_was_there(entrance: Door) -> None:
    """Who planted a session in a browser gets nothing: it ends, and the new one is another."""
    await entrance.sign_in(entrance.key(Role.READ_ONLY))
    planted = str(entrance.token)

    await entrance.sign_in(entrance.key(Role.ADMIN))

    assert entrance.token != planted
    assert await entrance.who(planted) == NOBODY
    assert await entrance.who() == entrance.world.ours.admin.key_id


async def test_a_token_that_was_never_given_out_is_nobodys(entrance: Door) -> None:
    """Also one that cannot be a token at all; and signing in does not make it one."""
    for made_up in ("A" * 43, "é" * 43, "A" * 42, "A" * 44, "", "*", "A" * 5000):
        cookie = {"Cookie": f"{COOKIE}={made_up}".encode()}
        assert (await entrance.client.get(WHO, headers=cookie)).text == NOBODY

    entrance.client.cookies.set(COOKIE, "A" * 43, domain="127.0.0.1")
    await entrance.sign_in()

    assert entrance.token != "A" * 43
    assert await entrance.who("A" * 43) == NOBODY


async def test_signing_out_ends_the_session_not_only_the_cookie(entrance: Door) -> None:
    """A copy of the cookie is of no use afterwards, and the browser has none any more."""
    await entrance.sign_in()
    token = str(entrance.token)

    answer = await entrance.post(SIGN_OUT)

    assert not entrance.sessions._known
    assert (answer.status_code, answer.headers["location"]) == (303, f"{SIGN_IN}?out=everywhere")
    assert entrance.token is None
    assert await entrance.who(token) == NOBODY
    assert "You have signed out." in (await entrance.client.get(answer.headers["location"])).text


async def test_signing_out_without_a_session_is_no_error(entrance: Door) -> None:
    """A second click, or a session that has ended meanwhile."""
    assert (await entrance.post(SIGN_OUT)).status_code == 303


async def test_a_session_that_is_not_used_ends(entrance: Door, redis_url: str) -> None:
    """Redis forgets it after eight hours; every request begins them anew."""
    await entrance.sign_in()
    with redis.Redis.from_url(redis_url) as client:
        (name,) = client.scan_iter("ibex:session:*")
        client.pexpire(name, 60_000)

        assert await entrance.who() == entrance.world.ours.admin.key_id

        assert client.pttl(name) > (IDLE_S - 60) * 1000
        client.pexpire(name, 1)
        while client.exists(name):
            pass
    assert await entrance.who() == NOBODY


async def test_a_session_ends_after_seven_days_however_busy(entrance: Door, redis_url: str) -> None:
    """To the second; then nothing of it is left in Redis."""
    await entrance.sign_in()
    begun = entrance.clock.now
    for age_s in (*range(0, LONGEST_S, DAY_S), LONGEST_S - 1):
        entrance.clock.now = begun + age_s
        assert await entrance.who() == entrance.world.ours.admin.key_id

    entrance.clock.now = begun + LONGEST_S

    assert await entrance.who() == NOBODY
    with redis.Redis.from_url(redis_url) as client:
        assert list(client.scan_iter("ibex:session:*")) == []


async def test_revoking_a_key_signs_it_out_everywhere_at_once(
    entrance: Door, redis_url: str
) -> None:
    """Both browsers of that key, with their next request; another key's session stays."""
    await entrance.sign_in(entrance.key(Role.READ_ONLY))
    one = str(entrance.token)
    entrance.client.cookies.clear()
    await entrance.sign_in(entrance.key(Role.READ_ONLY))
    other = str(entrance.token)
    entrance.client.cookies.clear()
    await entrance.sign_in(entrance.key(Role.ADMIN))
    ours = entrance.world.ours
    assert {await entrance.who(one), await entrance.who(other)} == {ours.read_only.key_id}

    await entrance.world.management.revoke_key(ours.admin, ours.read_only.key_id)

    assert {await entrance.who(one), await entrance.who(other)} == {NOBODY}
    assert await entrance.who() == ours.admin.key_id
    with redis.Redis.from_url(redis_url) as client:
        assert len(list(client.scan_iter("ibex:session:*"))) == 1


async def test_what_is_no_session_of_ours_is_nobodys(entrance: Door, redis_url: str) -> None:
    """Whatever stands under that name in Redis: no error, and nobody."""
    await entrance.sign_in()
    with redis.Redis.from_url(redis_url) as client:
        (name,) = client.scan_iter("ibex:session:*")
        for stored in (
            "",
            b"\xff",
            "[]",
            '{"key_id":"x","created_ms":1}',
            f'{{"key_id":"{NOWHERE}"}}',
            f'{{"key_id":"{NOWHERE}","created_ms":1796000000000}}',
        ):
            client.set(name, stored)
            assert await entrance.who() == NOBODY


async def test_an_agents_key_in_a_session_is_nobodys(
    entrance: Door, redis_url: str, repository: Repository
) -> None:
    """A session names an operator's key, or none."""
    await entrance.sign_in()
    agents = entrance.world.ours.key_ids[Role.AGENT]
    assert await repository.live_operator_key(agents) is None
    with redis.Redis.from_url(redis_url) as client:
        (name,) = client.scan_iter("ibex:session:*")
        client.set(name, f'{{"key_id":"{agents}","created_ms":1796000000000}}')

    assert await entrance.who() == NOBODY


async def test_another_worker_knows_the_session_too(entrance: Door, redis_url: str) -> None:
    """And its end."""
    async with door(entrance.world, redis_url) as other:
        await entrance.sign_in()
        token = str(entrance.token)
        assert await other.who(token) == entrance.world.ours.admin.key_id

        await entrance.post(SIGN_OUT)

        assert await other.who(token) == NOBODY


async def test_a_worker_does_not_remember_without_bound(
    entrance: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those who have signed in nor those who have signed out."""
    monkeypatch.setattr(session, "REMEMBERED", 2)
    for _ in range(4):
        await entrance.sign_in()
        await entrance.post(SIGN_OUT)
    for _ in range(4):
        await entrance.sign_in()
        entrance.client.cookies.clear()

    assert (len(entrance.sessions._known), len(entrance.sessions._ended)) == (2, 2)

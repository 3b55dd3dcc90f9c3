"""Who tries many keys waits longer and longer; who holds a correct one gets in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import httpx
import pytest
import redis
from operators import World
from session_server import SIGN_IN, Door, door
from waiting import comes_true

from dashboard import pace
from dashboard.pace import DELAYS_S, FORGOTTEN_AFTER_S, WAITING_OF_ONE, client_of
from db.api_keys import Role, generate

LONG = 3600.0
"""A wait that no test sees the end of."""
OpenDoor = Callable[..., Awaitable[Door]]


@pytest.fixture
async def open_door(operated: World, redis_url: str) -> AsyncIterator[OpenDoor]:
    """`open_door(*delays_s)`: a worker with that pace."""
    async with AsyncExitStack() as exits:

        async def start(*delays_s: float, trusted_proxies: int = 0) -> Door:
            opened = door(operated, redis_url, delays_s=delays_s, trusted_proxies=trusted_proxies)
            return await exits.enter_async_context(opened)

        yield start


class Attempts:
    """Sign-ins that run at once."""

    def __init__(self, entrance: Door, count: int, key: str | None = None) -> None:
        self.tasks = [asyncio.create_task(entrance.sign_in(key or wrong())) for _ in range(count)]

    @property
    def statuses(self) -> list[int]:
        """Of those that have been answered."""
        return sorted(task.result().status_code for task in self.tasks if task.done())

    async def give_up(self) -> None:
        """The browsers leave."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def wrong() -> str:
    """A key that could be one, and is none."""
    return generate(Role.ADMIN)


def counts(redis_url: str) -> dict[bytes, int]:
    """What Redis holds of attempts, by its key."""
    with redis.Redis.from_url(redis_url) as client:
        return {key: int(client.get(key) or 0) for key in client.scan_iter("ibex:sign-in:*")}


async def is_waiting(entrance: Door, key: str | None = None) -> bool:
    """Whether a sign-in is held back, before its key is looked at."""
    attempt = Attempts(entrance, 1, key)
    (task,) = attempt.tasks
    waits = await comes_true(lambda: task.done() or entrance.pace._waiting.total() == 1)
    assert waits
    is_held_back = not task.done()
    await attempt.give_up()
    return is_held_back


def test_waits_grow_and_are_bounded() -> None:
    """A few typing errors cost nothing; the longest wait is eight seconds."""
    assert list(DELAYS_S) == sorted(DELAYS_S)
    assert (DELAYS_S[:3], DELAYS_S[-1]) == ((0, 0, 0), 8)


async def test_after_a_few_failures_the_next_attempt_waits(open_door: OpenDoor) -> None:
    """A correct key too, because nobody has looked at it yet; its turn comes."""
    entrance = await open_door(0, 0, LONG)

    assert [(await entrance.sign_in(wrong())).status_code for _ in range(2)] == [422, 422]

    assert await is_waiting(entrance)
    assert await is_waiting(entrance, entrance.key())


async def test_a_correct_key_gets_in_however_many_failed(
    open_door: OpenDoor, redis_url: str
) -> None:
    """There is no lock-out; and it takes back its own attempt, not those of others."""
    entrance = await open_door(0, 0.001)
    for _ in range(20):
        assert (await entrance.sign_in(wrong())).status_code == 422

    assert (await entrance.sign_in()).status_code == 303

    assert list(counts(redis_url).values()) == [20]


async def test_attempts_in_parallel_do_not_slip_through(open_door: OpenDoor) -> None:
    """Each is counted before it waits; and not without bound many wait."""
    entrance = await open_door(0, LONG)

    attempts = Attempts(entrance, WAITING_OF_ONE + 3)

    assert await comes_true(lambda: len(attempts.statuses) == 3)
    assert attempts.statuses == [422, 429, 429]
    assert entrance.pace._waiting.total() == WAITING_OF_ONE
    await attempts.give_up()


async def test_who_is_asked_to_come_later_is_told_when(open_door: OpenDoor) -> None:
    """In a header and in words, on the page with the form."""
    entrance = await open_door(1.5)
    entrance.pace._waiting["127.0.0.1"] = WAITING_OF_ONE

    answer = await entrance.sign_in()

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert "Too many sign-ins wait already: try again in 2 s" in answer.text
    assert 'name="key"' in answer.text


async def test_one_client_does_not_take_all_the_places(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait beside it, up to a bound for all."""
    monkeypatch.setattr(pace, "WAITING", WAITING_OF_ONE + 1)
    entrance = await open_door(LONG, trusted_proxies=1)

    async def attempt(address: str) -> httpx.Response:
        headers = {"X-Forwarded-For": address, "Sec-Fetch-Site": "same-origin"}
        return await entrance.post(SIGN_IN, {"key": wrong()}, headers)

    one = [asyncio.create_task(attempt("192.0.2.1")) for _ in range(WAITING_OF_ONE)]
    assert await comes_true(lambda: entrance.pace._waiting.total() == WAITING_OF_ONE)
    other = asyncio.create_task(attempt("192.0.2.2"))
    assert await comes_true(lambda: entrance.pace._waiting["192.0.2.2"] == 1)

    assert (await attempt("192.0.2.3")).status_code == 429

    for task in (*one, other):
        task.cancel()
    await asyncio.gather(*one, other, return_exceptions=True)


async def test_a_browser_that_leaves_gives_its_place_back(open_door: OpenDoor) -> None:
    """Those who wait are those who are there."""
    entrance = await open_door(LONG)
    attempts = Attempts(entrance, 3)
    assert await comes_true(lambda: entrance.pace._waiting.total() == 3)

    await attempts.give_up()

    assert await comes_true(lambda: not entrance.pace._waiting)


async def test_all_workers_count_together(open_door: OpenDoor) -> None:
    """What one has seen slows down the other."""
    first, second = await open_door(0, 0, LONG), await open_door(0, 0, LONG)
    assert (await first.sign_in(wrong())).status_code == 422
    assert (await second.sign_in(wrong())).status_code == 422

    assert await is_waiting(first)


async def test_failures_are_forgotten(open_door: OpenDoor, redis_url: str) -> None:
    """After a quarter of an hour without one, whatever is then left. No address is in Redis."""
    entrance = await open_door(0, LONG)
    assert (await entrance.sign_in(wrong())).status_code == 422
    (name,) = counts(redis_url)
    with redis.Redis.from_url(redis_url) as client:
        assert 0 < client.pttl(name) <= FORGOTTEN_AFTER_S * 1000
        assert b"127.0.0.1" not in name
        client.delete(name)
        assert (await entrance.sign_in(wrong())).status_code == 422
        client.set(name, -1)

    assert (await entrance.sign_in(wrong())).status_code == 422


async def test_without_redis_a_worker_counts_on_by_itself(open_door: OpenDoor) -> None:
    """From what was counted before; it forgets as Redis does."""
    entrance = await open_door(0, 0, LONG)
    assert (await entrance.sign_in(wrong())).status_code == 422

    entrance.gate.is_open = True

    assert (await entrance.sign_in(wrong())).status_code == 422
    assert await is_waiting(entrance)
    entrance.clock.now += FORGOTTEN_AFTER_S - 1
    assert await is_waiting(entrance)
    entrance.clock.now += FORGOTTEN_AFTER_S
    assert (await entrance.sign_in(wrong())).status_code == 422


async def test_a_worker_does_not_remember_every_client(
    open_door: OpenDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest makes room."""
    monkeypatch.setattr(pace, "REMEMBERED", 2)
    entrance = await open_door(0, trusted_proxies=1)
    for number in (0, 1, 0, 2):
        headers = {"X-Forwarded-For": f"192.0.2.{number}", "Sec-Fetch-Site": "same-origin"}
        assert (await entrance.post(SIGN_IN, {"key": wrong()}, headers)).status_code == 422

    assert list(entrance.pace._own) == ["192.0.2.0", "192.0.2.2"]


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "trusted_proxies", "client"),
    [
        ("192.0.2.1", "", 0, "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9", 0, "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9", 1, "203.0.113.9"),
        ("192.0.2.1", "made.up, 203.0.113.9", 1, "203.0.113.9"),
        ("192.0.2.1", "made.up, 203.0.113.9,198.51.100.7", 2, "203.0.113.9"),
        ("192.0.2.1", "203.0.113.9", 2, "203.0.113.9"),
        ("192.0.2.1", "", 1, "192.0.2.1"),
        ("192.0.2.1", " , ", 1, "192.0.2.1"),
        ("192.0.2.1", "203.0.113.9:4711", 1, "203.0.113.9"),
        ("192.0.2.1", "[2001:db8:1:2::3]:4711", 1, "2001:db8:1:2::/64"),
        ("192.0.2.1", "2001:db8:1:2:ffff::9", 1, "2001:db8:1:2::/64"),
        ("2001:db8:1:2::3", "", 0, "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "", 0, "192.0.2.1"),
        ("192.0.2.1", "unknown", 1, "unknown"),
        ("", "", 0, ""),
    ],
)
def test_whose_attempts_count_together(
    peer: str, forwarded_for: str, trusted_proxies: int, client: str
) -> None:
    """An address, or an IPv6 site. What a client says of itself counts only behind proxies."""
    assert client_of(peer, forwarded_for, trusted_proxies) == client

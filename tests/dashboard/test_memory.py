"""What is shown when a server cannot be asked."""

import pytest

from dashboard.memory import Memory, Recalled, read
from graphql_api.errors import DatabaseUnavailable, Forbidden
from lua.errors import LimiterUnavailableError

LIMITER_DOWN = LimiterUnavailableError("refused", may_have_run=False)
DATABASE_DOWN = DatabaseUnavailable("refused")


class Source:
    """Numbers that a test breaks."""

    key = ("key", "page")
    type = str

    def __init__(self, live: str | Exception, standing: Exception | None = None) -> None:
        self._live = live
        self._standing = standing

    async def live(self) -> str:
        if isinstance(self._live, Exception):
            raise self._live
        return self._live

    async def standing(self, last: str | None) -> str:
        if self._standing:
            raise self._standing
        return f"standing, {last}"


async def test_what_can_be_read_is_shown_and_kept() -> None:
    """Nothing is missing then."""
    memory = Memory()

    assert await read(memory, Source("new")) == Recalled("new", None)
    assert memory.recall(Source.key, str) == "new"


async def test_without_redis_names_and_limits_are_read_anew() -> None:
    """The numbers are the last known, or none."""
    memory = Memory()

    assert await read(memory, Source(LIMITER_DOWN)) == Recalled("standing, None", "redis")
    memory.keep(Source.key, "old")
    assert await read(memory, Source(LIMITER_DOWN)) == Recalled("standing, old", "redis")


@pytest.mark.parametrize("source", [Source(DATABASE_DOWN), Source(LIMITER_DOWN, DATABASE_DOWN)])
async def test_without_postgres_the_last_known_is_shown(source: Source) -> None:
    """Also where Redis is down too; with nothing known it is an error."""
    memory = Memory()

    with pytest.raises(DatabaseUnavailable):
        await read(memory, source)
    memory.keep(Source.key, "old")
    assert await read(memory, source) == Recalled("old", "postgres")


async def test_what_may_not_be_seen_is_not_recalled() -> None:
    """A refusal is no outage."""
    memory = Memory()
    memory.keep(Source.key, "old")

    with pytest.raises(Forbidden):
        await read(memory, Source(Forbidden("no")))


def test_readings_are_kept_apart_and_are_not_many() -> None:
    """By who read what; the one that was longest not used makes room."""
    memory = Memory(capacity=2)
    memory.keep(("a", "x"), "ax")
    memory.keep(("b", "x"), "bx")
    assert memory.recall(("a", "x"), str) == "ax"

    memory.keep(("c", "x"), "cx")

    assert memory.recall(("a", "x"), str) == "ax"
    assert memory.recall(("b", "x"), str) is None
    assert memory.recall(("c", "x"), str) == "cx"
    assert memory.recall(("c", "x"), int) is None

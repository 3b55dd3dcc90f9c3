"""The last known numbers: what to show while Redis or Postgres cannot be asked.

Kept by each worker in its memory, for the key that has read them, and never shown as if they were
new: whoever recalls them says of when they are.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dashboard.patience import patiently
from graphql_api.errors import DatabaseUnavailable, LimiterError

R = TypeVar("R")

CAPACITY = 24
"""Readings kept. One with 50 agents takes up to a megabyte."""


class Memory:
    """Readings by who read what; the one that was longest not looked at goes first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._readings: OrderedDict[tuple[str, ...], object] = OrderedDict()

    def keep(self, key: tuple[str, ...], reading: object) -> None:
        self._readings[key] = reading
        self._readings.move_to_end(key)
        while len(self._readings) > self._capacity:
            self._readings.popitem(last=False)

    def recall(self, key: tuple[str, ...], of_type: type[R]) -> R | None:
        """The last reading under that key, if it is kept."""
        found = self._readings.get(key)
        if not isinstance(found, of_type):
            return None
        self._readings.move_to_end(key)
        return found


class Source(Protocol[R]):
    """Where a page's numbers come from. A reading is a frozen value."""

    @property
    def key(self) -> tuple[str, ...]:
        """Who asks for what."""

    @property
    def type(self) -> type[R]:
        """The reading's type."""

    async def live(self) -> R:
        """Everything. Raises LimiterError, DatabaseUnavailable, and what forbids it."""

    async def standing(self, last: R | None) -> R:
        """What Postgres knows, with the live numbers of `last`. Raises DatabaseUnavailable."""


@dataclass(frozen=True, slots=True)
class Recalled(Generic[R]):
    """A reading, and which server could not be asked for it: `redis`, `postgres` or none."""

    reading: R
    missing: str | None


async def read(memory: Memory, source: Source[R]) -> Recalled[R]:
    """Read what can be read. Raises DatabaseUnavailable where nothing is known at all."""
    last = memory.recall(source.key, source.type)
    try:
        try:
            reading = await patiently(source.live())
        except LimiterError:
            return Recalled(await patiently(source.standing(last)), "redis")
    except DatabaseUnavailable:
        if last is None:
            raise
        return Recalled(last, "postgres")
    memory.keep(source.key, reading)
    return Recalled(reading, None)

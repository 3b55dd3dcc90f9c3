"""How long a page waits for Postgres: seconds, where the driver waits more than a minute for one
that is frozen. Redis' answers are not waited for as long as this in any case.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from graphql_api.errors import DatabaseUnavailable

T = TypeVar("T")

PATIENCE_S = 3.0
"""For who asks and again for what is shown: together less than the pages' script waits."""


class GivenUpError(DatabaseUnavailable):
    """The database was not waited for any longer. What was asked of it may still be done."""

    def __init__(self) -> None:
        super().__init__(f"Postgres has not answered in {PATIENCE_S:g} s")


async def patiently(asked: Coroutine[Any, Any, T]) -> T:
    """Return its result. Raises GivenUpError when that takes too long.

    It is canceled then, but not waited for: the driver lets go of a connection when it pleases.
    """
    task = asyncio.create_task(asked)
    try:
        done, _ = await asyncio.wait({task}, timeout=PATIENCE_S)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_forget)
    if not done:
        raise GivenUpError
    return task.result()


def _forget(task: asyncio.Task[Any]) -> None:
    """How it has failed is nobody's concern any more, and not to be logged as an error."""
    if not task.cancelled():
        task.exception()

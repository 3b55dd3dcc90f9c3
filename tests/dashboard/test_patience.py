"""How long a page waits for its database."""

import asyncio
from contextlib import suppress

import pytest

from dashboard import patience
from dashboard.patience import GivenUpError, patiently


async def answered() -> str:
    """At once."""
    return "answer"


async def refused() -> str:
    """At once, too."""
    raise ValueError("no")


async def test_what_is_answered_in_time_is_passed_on() -> None:
    """An answer, and an error as it is."""
    assert await patiently(answered()) == "answer"
    with pytest.raises(ValueError, match="no"):
        await patiently(refused())


async def test_who_does_not_even_stop_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked is canceled when it takes too long, and may take its time with that."""
    monkeypatch.setattr(patience, "PATIENCE_S", 0.01)
    canceled, may_end = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()
            await may_end.wait()
            raise ValueError("not to be logged")

    task: list[asyncio.Task[None] | None] = []

    async def noted() -> None:
        task.append(asyncio.current_task())
        await stubborn()

    with pytest.raises(GivenUpError):
        await patiently(noted())

    await canceled.wait()
    may_end.set()
    (left,) = task
    assert left is not None
    with suppress(ValueError):
        await left


async def test_who_leaves_takes_the_question_along() -> None:
    """A browser that has hung up occupies no connection to the database."""
    begun, canceled = asyncio.Event(), asyncio.Event()

    async def asked() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()

    page = asyncio.create_task(patiently(asked()))
    await begun.wait()
    page.cancel()

    with pytest.raises(asyncio.CancelledError):
        await page
    await canceled.wait()

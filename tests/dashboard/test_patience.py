"""How long a page waits for its database."""

import asyncio
import gc
from typing import Any

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
    """What is asked is canceled when it takes too long; how it ends then is nobody's concern."""
    monkeypatch.setattr(patience, "PATIENCE_S", 0.01)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    canceled, may_end = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()
            await may_end.wait()
            raise ValueError("too late")

    with pytest.raises(GivenUpError):
        await patiently(stubborn())

    await canceled.wait()
    may_end.set()
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


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

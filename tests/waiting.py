"""Waiting for something, in a coroutine."""

import asyncio
from collections.abc import Callable


async def comes_true(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it does in time, the loop running meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True

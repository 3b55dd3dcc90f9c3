"""The agents of `ibex dev --demo`: `python -m gateway.demo DEV_JSON`.

Two agents with the official OpenAI SDK, so that the limits have something to do: one works
steadily, with a burst now and then; the other asks faster than it may, is denied, and rests. They
send about two requests a second together and run until they are ended.
"""

import asyncio
import sys
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
from openai import APIError, AsyncOpenAI, RateLimitError
from openai.types.chat import ChatCompletionMessageParam

MODEL = "gpt-4o-mini"
QUESTIONS = (
    "Summarize the open support tickets in two sentences.",
    "Which of these invoices are overdue?",
    "Draft a friendly reply to the customer who asked about delivery times.",
    "Translate the release notes into German, and keep the product names as they are.",
)
STEADY_PAUSES = (2.0, 3.0, 2.0, 1.0, 4.0, 0.1, 0.1, 0.1, 0.1, 5.0)  # seconds between questions
# Ninety questions in half a minute where sixty are allowed, then a rest.
OVERRUN_PAUSES = (*[1 / 3] * 90, 45.0)
TROUBLE_PAUSE = 5.0


async def ask(client: AsyncOpenAI, question: str, *, stream: bool) -> None:
    """Ask and read the whole answer."""
    create = client.chat.completions.create
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": question}]
    if stream:
        async for _ in await create(model=MODEL, messages=messages, max_tokens=200, stream=True):
            pass
    else:
        await create(model=MODEL, messages=messages, max_tokens=200)


async def agent(base_url: str, key: str, pauses: Iterable[float]) -> None:
    """Ask for ever. A denial is no reason to stop, and trouble is one to wait."""
    client = AsyncOpenAI(base_url=f"{base_url}/openai/v1", api_key=key, max_retries=0)
    for question, pause, stream in zip(
        cycle(QUESTIONS), cycle(pauses), cycle((True, False, False)), strict=False
    ):
        try:
            await ask(client, question, stream=stream)
        except RateLimitError:
            pass
        except APIError as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            await asyncio.sleep(TROUBLE_PAUSE)
        await asyncio.sleep(pause)


async def main(dev: dict[str, Any]) -> None:
    """Run both agents on the addresses and keys that `dev.json` holds."""
    steady, overrunning = (entry["key"] for entry in dev["agents"][:2])
    await asyncio.gather(
        agent(dev["base_url"], steady, STEADY_PAUSES),
        agent(dev["base_url"], overrunning, OVERRUN_PAUSES),
    )


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes())))

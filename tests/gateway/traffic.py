"""Agents' chat requests, sent as any client would: one, many at once, or without an end."""

import asyncio
import http.client
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import redis
from gateway_stack import Agent, Stack
from servers import RedisServer

CHAT = "/v1/chat/completions"
HELD = 50
"""What a request holds at least: its max_tokens."""
USED = 7
"""What the raw upstream says that a request has used."""
WAITS_S = 30
REDIS_DOWN = "Redis does not answer: nothing is limited until it does"
"""What the log says at a start without Redis."""


@dataclass(frozen=True)
class Answer:
    """What came back, and after how long. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def is_open(self) -> bool:
        """Forwarded without a decision."""
        return self.headers.get("ibex-limiter") == "open"

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Opened:
    """A request whose answer has begun."""

    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse

    def read(self) -> bytes:
        """The rest of the answer. Raises HTTPException or OSError where it breaks off."""
        try:
            return self.response.read()
        finally:
            self.close()

    def close(self) -> None:
        """Leave, with or without having read it."""
        self.response.close()
        self.connection.close()


def chat_body(**fields: object) -> bytes:
    """A small chat request."""
    message = {"role": "user", "content": "hi"}
    return json.dumps({"model": "m", "max_tokens": HELD, "messages": [message], **fields}).encode()


def ask(stack: Stack, agent: Agent | None, upstream: str = "raw", **fields: object) -> Opened:
    """Send one chat request and return when the head of its answer is there.

    It has a connection of its own. Without an agent it has no key.
    """
    connection = http.client.HTTPConnection("127.0.0.1", stack.gateway.port, timeout=WAITS_S)
    headers = {"Content-Type": "application/json", **(agent.bearer if agent else {})}
    connection.request("POST", f"/{upstream}{CHAT}", chat_body(**fields), headers)
    return Opened(connection, connection.getresponse())


def chat(stack: Stack, agent: Agent | None, upstream: str = "raw", **fields: object) -> Answer:
    """One chat request and its whole answer."""
    before = time.monotonic()
    opened = ask(stack, agent, upstream, **fields)
    body = opened.read()
    names = {name.lower(): value for name, value in opened.response.getheaders()}
    return Answer(opened.response.status, names, body, time.monotonic() - before)


async def chats(stack: Stack, agent: Agent, count: int, **fields: Any) -> list[Answer]:
    """That many at once."""
    calls = (asyncio.to_thread(chat, stack, agent, **fields) for _ in range(count))
    return await asyncio.gather(*calls)


@dataclass
class Traffic:
    """What a few busy clients of one agent have seen so far."""

    answers: list[Answer] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    async def client(self, stack: Stack, agent: Agent) -> None:
        """Ask until cancelled; what is under way then is finished and seen too."""
        while True:
            call = asyncio.create_task(asyncio.to_thread(chat, stack, agent))
            try:
                await asyncio.shield(call)
            finally:
                await asyncio.gather(call, return_exceptions=True)
                error = call.exception()
                if isinstance(error, Exception):
                    self.failures.append(error)
                else:
                    self.answers.append(call.result())
            await asyncio.sleep(0.01)

    async def until(
        self, wanted: Callable[[Answer], bool], seconds: float = 10.0, *, count: int = 1
    ) -> float:
        """Wait for such answers from now on, and return how long that took."""
        at, loop = len(self.answers), asyncio.get_running_loop()
        before = loop.time()
        while sum(map(wanted, self.answers[at:])) < count:
            assert loop.time() - before < seconds, f"not within {seconds} s"
            await asyncio.sleep(0.01)
        return loop.time() - before


@asynccontextmanager
async def traffic(stack: Stack, agent: Agent, clients: int = 4) -> AsyncIterator[Traffic]:
    """Clients at work until the end of the block."""
    seen = Traffic()
    tasks = [asyncio.create_task(seen.client(stack, agent)) for _ in range(clients)]
    try:
        await seen.until(lambda answer: answer.status == http.client.OK, count=clients)
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def command(server: RedisServer, *words: str | int) -> Any:
    """One command for Redis."""
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        return client.execute_command(*words)


def limiter_state(stack: Stack) -> str:
    """What the gateway says of its limiter: deciding or open."""
    return str(stack.gateway.readyz()["limiter"]["state"])

"""A provider that remembers, of every request, what it said that it used.

It speaks chat, responses, embeddings and messages, whole and as streams, and can refuse, be silent
or reset connections. A request is told apart by its `x-soak-id`.
"""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any

HOST = "127.0.0.1"
LAST_PIECES = 3
"""From the one with the usage on: the last event and the end of the stream may follow."""
WORDS = ("the", "agent", "reads", "another", "page", "of", "a", "long", "report", "and", "writes")


class Mood(Enum):
    """What it does to requests."""

    WELL = auto()
    SILENT = auto()
    RESETTING = auto()


@dataclass
class Spent:
    """The truth about one request: what was to be stated, and how much of the answer was sent.

    `may_have_stated`: all but the last few pieces were sent, and the usage is in one of these.
    """

    stated: int
    times: int = 1
    has_begun: bool = False
    may_have_stated: bool = False
    is_whole: bool = False
    sent: int = 0


class Upstream:
    """Listens from `listen()` until `refuse()`, always on the same port."""

    def __init__(self, random: Random) -> None:
        self.mood = Mood.WELL
        self.spent: dict[str, Spent] = {}
        self.port = 0
        self._random = random
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._idle: set[asyncio.StreamWriter] = set()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    async def listen(self) -> None:
        """Accept connections, from now on."""
        self._server = await asyncio.start_server(self._serve, HOST, self.port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Accept none, and reset those that there are."""
        if self._server:
            self._server.close()
            self._server = None
        self.reset()
        await asyncio.sleep(0)

    def reset(self) -> None:
        """End every connection here and now."""
        for writer in self._connections:
            writer.transport.abort()

    def rest(self) -> None:
        """End the connections on which nothing is asked, as servers do after a while."""
        for writer in self._idle:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            with suppress(OSError, EOFError):
                while True:
                    self._idle.add(writer)
                    head = await reader.readuntil(b"\r\n\r\n")
                    self._idle.discard(writer)
                    await self._answer(head, reader, writer)
        finally:
            self._idle.discard(writer)
            self._connections.discard(writer)
            writer.transport.abort() if self.mood is Mood.RESETTING else writer.close()

    async def _answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        target, fields = _parsed(head)
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        spent = self._remember(fields["x-soak-id"])
        await asyncio.sleep(self._random.uniform(0, 0.1))
        while self.mood is Mood.SILENT:  # noqa: ASYNC110  # a provider as simple as can be
            await asyncio.sleep(0.1)
        pieces = list(answer(target, body, spent.stated, self._random))
        cut = len(pieces)
        if self.mood is Mood.RESETTING:
            cut = self._random.randrange(cut)
        for number, piece in enumerate(pieces[:cut]):
            writer.write(piece)
            spent.has_begun, spent.sent = True, spent.sent + len(piece)
            spent.may_have_stated = number >= len(pieces) - LAST_PIECES
            spent.is_whole = number == len(pieces) - 1
            await writer.drain()
            if number % 4 == 0:
                await asyncio.sleep(self._random.uniform(0, 0.02))
        if cut < len(pieces):
            writer.transport.abort()
            raise ConnectionResetError("cut on purpose")

    def _remember(self, name: str) -> Spent:
        if known := self.spent.get(name):
            known.times += 1
            return known
        self.spent[name] = spent = Spent(stated=self._random.randint(2, 900))
        return spent


def answer(target: str, body: Any, stated: int, random: Random) -> Iterable[bytes]:
    """The pieces of a whole answer, head first, that states so many tokens in all."""
    prompt = random.randint(1, stated - 1)
    texts = _texts(body, random)
    if not body.get("stream"):
        yield from _json(_whole(target, prompt, stated - prompt, "".join(texts)))
        return
    yield (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for event in _events(target, body, prompt, stated - prompt, texts):
        line = event if isinstance(event, str) else json.dumps(event)
        name = "" if isinstance(event, str) or "type" not in event else f"event: {event['type']}\n"
        yield _chunk(f"{name}data: {line}\n\n".encode())
    yield b"0\r\n\r\n"


def _texts(body: Any, random: Random) -> list[str]:
    is_long = body.get("user") == "slow"
    size = 400 if is_long else 1
    count = random.randint(60, 120) if is_long else random.randint(1, 24)
    return [" ".join(random.choices(WORDS, k=random.randint(1, 6))) * size for _ in range(count)]


def _json(found: Any) -> Iterable[bytes]:
    text = json.dumps(found).encode()
    yield (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(text)
    )
    yield text


def _whole(target: str, prompt: int, output: int, text: str) -> Any:
    if target.endswith("embeddings"):
        total = prompt + output
        return {"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": total}}
    if target.endswith(("responses", "messages")):
        usage = {"input_tokens": prompt, "output_tokens": output}
        return {"id": "x", "content": [{"type": "text", "text": text}], "usage": usage}
    message = {"index": 0, "message": {"role": "assistant", "content": text}}
    return {"id": "x", "choices": [message], "usage": _openai(prompt, output)}


def _events(
    target: str, body: Any, prompt: int, output: int, texts: list[str]
) -> Iterable[dict[str, Any] | str]:
    if target.endswith("responses"):
        for text in texts:
            yield {"type": "response.output_text.delta", "delta": text}
        usage = {"input_tokens": prompt, "output_tokens": output}
        yield {"type": "response.completed", "response": {"status": "completed", "usage": usage}}
    elif target.endswith("messages"):
        usage = {"input_tokens": prompt, "output_tokens": 1}
        yield {"type": "message_start", "message": {"usage": usage}}
        for text in texts:
            delta = {"type": "text_delta", "text": text}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "message_delta", "delta": {}, "usage": {"output_tokens": output}}
        yield {"type": "message_stop"}
    else:
        for text in texts:
            yield {"choices": [{"index": 0, "delta": {"content": text}}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield {"choices": [], "usage": _openai(prompt, output)}
        yield "[DONE]"


def _openai(prompt: int, output: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _parsed(head: bytes) -> tuple[str, dict[str, str]]:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    fields = (line.partition(":") for line in lines)
    return first.split(" ")[1], {name.lower(): value.strip() for name, _, value in fields}

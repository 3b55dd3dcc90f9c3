"""Failures by the thousand, of upstreams and of clients: each is settled once, nothing leaks."""

import asyncio
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]  # ships no types
from counters import Counters
from gateway_stack import Agent, Stack
from raw_calls import CHAT, PROMPT_TOKENS, call, chat, fields, provision
from raw_client import request
from raw_upstream import Peer, RawUpstream
from servers import eventually
from waiting import comes_true

OF_EACH = 1000
AT_ONCE = 64
KIND = "X-Kind"
DELTA = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"

# What the upstream does, by the name that a request bears.


def fails_unanswered(peer: Peer) -> None:
    peer.close()


def fails_within_its_head(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    peer.reset()


def fails_before_its_first_byte(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
    peer.reset()


def fails_in_the_middle(peer: Peer) -> None:
    peer.start_stream()
    peer.chunk(DELTA)
    peer.close()


def fails_after_the_last_byte(peer: Peer) -> None:
    peer.start_stream()
    peer.chunk(DELTA + USAGE + DONE)
    peer.close()


def is_left_unanswered(peer: Peer) -> None:
    ASKED.add(peer.received.values(b"x-number")[0])
    peer.wait_until_left()
    peer.close()


def is_left_in_the_middle(peer: Peer) -> None:
    peer.start_stream()
    peer.chunk(DELTA)
    peer.wait_until_left()
    peer.close()


def is_left_at_the_end(peer: Peer) -> None:
    peer.start_stream()
    peer.chunk(DELTA + USAGE + DONE)
    peer.end_stream()


ASKED: set[bytes] = set()
"""The requests that have reached an upstream which does not answer them."""

KINDS: dict[Callable[[Peer], None], tuple[bytes | None, int]] = {
    fails_unanswered: (b"502", 0),
    fails_within_its_head: (b"502", 0),
    fails_before_its_first_byte: (b"502", 0),
    fails_in_the_middle: (b'data: {"error"', PROMPT_TOKENS + 1),
    fails_after_the_last_byte: (DONE, 15),
    is_left_unanswered: (None, PROMPT_TOKENS),
    is_left_in_the_middle: (DELTA, PROMPT_TOKENS + 1),
    is_left_at_the_end: (DONE + b"\r\n0\r\n\r\n", 15),
}
"""For each what a client sees before it leaves, and the tokens that are settled."""


async def ask(stack: Stack, agent: Agent, kind: Callable[[Peer], None], number: int) -> bool:
    """One request on a connection of its own; whether what should be seen was."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.gateway.port)
    names = {KIND: kind.__name__, "X-Number": str(number)}
    writer.write(request("POST", CHAT, fields(agent, names), chat(stream=True)))
    awaited, _ = KINDS[kind]
    seen = b""
    try:
        if awaited is None:
            return await comes_true(lambda: str(number).encode() in ASKED, 30)
        while awaited not in seen:
            if not (piece := await reader.read(65_536)):
                return False
            seen += piece
        return True
    finally:
        writer.transport.abort()


def open_files(stack: Stack) -> int:
    """Without the connections to Redis and Postgres: their pools keep what was needed once."""
    process = psutil.Process(stack.gateway.pid)
    servers = {stack.redis.port, urlsplit(stack.database_url).port}
    pooled = [it for it in process.net_connections("tcp") if it.raddr and it.raddr.port in servers]
    return int(process.num_fds()) - len(pooled)


async def test_each_failure_is_settled_once_and_leaves_nothing_open(
    stack: Stack, raw: RawUpstream, tell: Callable[[str], None]
) -> None:
    """A thousand of each kind, mixed: sockets and reservations are back where they were."""
    tenant = await asyncio.to_thread(provision, stack)
    await asyncio.to_thread(call, stack, tenant.agent, CHAT, chat())
    scripts = {kind.__name__.encode(): kind for kind in KINDS}
    raw.script = lambda peer: scripts[peer.received.values(b"x-kind")[0]](peer)
    before = open_files(stack) - raw.open_connections, raw.connections
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, kind: Callable[[Peer], None]) -> tuple[str, bool]:
        async with slots:
            return kind.__name__, await ask(stack, tenant.agent, kind, number)

    mixed = [one(number * len(KINDS) + at, kind)
             for number in range(OF_EACH) for at, kind in enumerate(KINDS)]  # fmt: skip
    seen = Counter(await asyncio.gather(*mixed))
    assert seen == {(kind.__name__, True): OF_EACH for kind in KINDS}
    counters = Counters(stack, tenant)
    expected = OF_EACH * sum(tokens for _, tokens in KINDS.values()) + 7
    assert await asyncio.to_thread(counters.settled, expected)
    assert counters.requests(tenant.agent) == len(mixed) + 1
    assert eventually(lambda: open_files(stack) - raw.open_connections <= before[0])
    tell(
        f"{len(mixed)} requests: {raw.connections - before[1]} upstream connections opened, "
        f"{open_files(stack) - raw.open_connections - before[0]} leaked; settled "
        f"{counters.tokens()} tokens of {expected}: twice 0, not settled {counters.open()}"
    )

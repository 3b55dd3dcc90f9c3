"""A load generator in a process of its own: a closed loop over connections that are kept alive.

Argument: a file with a Plan as JSON. Each connection sends its request again as soon as the answer
is there. Prints LoadFigures as JSON; fails at the first answer that is not 200 and at the first
connection that is closed.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import cast

import httptools
import msgspec
import psutil  # type: ignore[import-untyped]  # ships no types
import uvloop

WARM_UP_S = 1.0
OK = 200


class Plan(msgspec.Struct, frozen=True):
    """Where to, what each connection sends, for how long, and whose CPU is measured."""

    port: int
    requests: list[bytes]
    seconds: float
    server_pid: int


class LoadFigures(msgspec.Struct, frozen=True):
    """What came back, and what it cost the server's process."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    server_us: float


class Load:
    """What all connections have in common."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended = False

    def fail(self, reason: str) -> None:
        """The whole run is worth nothing."""
        if not self.failed.done() and not self.ended:
            self.failed.set_exception(RuntimeError(reason))

    async def run(self, seconds: float) -> None:
        """Let the connections work. Raises RuntimeError when one fails."""
        await asyncio.wait([self.failed], timeout=seconds)
        if self.failed.done():
            self.failed.result()


class Connection(asyncio.Protocol):
    """Sends its request, again and again."""

    def __init__(self, load: Load, request: bytes) -> None:
        self._load = load
        self._request = request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._load.fail(f"a connection was closed: {error}")

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._load.took.append(time.perf_counter() - self._began)
        if self._parser.get_status_code() != OK:
            self._load.fail(f"an answer had status {self._parser.get_status_code()}")
        elif not self._load.ended:
            self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)


async def main(plan: Plan) -> None:
    """See the module."""
    server = psutil.Process(plan.server_pid)
    load = Load()
    for request in plan.requests:
        await asyncio.get_running_loop().create_connection(
            lambda request=request: Connection(load, request),  # type: ignore[misc]  # bound now
            "127.0.0.1",
            plan.port,
        )
    await load.run(WARM_UP_S)
    load.took.clear()
    cpu, began = server.cpu_times(), time.perf_counter()
    await load.run(plan.seconds)
    cpu_after, seconds = server.cpu_times(), time.perf_counter() - began
    took = sorted(load.took)
    load.ended = True
    figures = LoadFigures(
        requests_per_s=len(took) / seconds,
        p50_ms=took[len(took) // 2] * 1000,
        p99_ms=took[len(took) * 99 // 100] * 1000,
        server_us=(cpu_after.user + cpu_after.system - cpu.user - cpu.system) * 1e6 / len(took),
    )
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)))

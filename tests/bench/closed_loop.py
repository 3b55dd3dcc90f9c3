"""A closed loop by wrk: throughput, and what a request costs the gateway and Redis."""

from collections.abc import Sequence

import msgspec
from chat import Kind, Sender
from consumption import cpu_s
from stand import FOLDER, Server, Stand
from tools import debian

PATIENCE_S = 120
MOST_FAILED = 0.01


class LoadError(RuntimeError):
    """A server did not do what was to be measured."""


class Load(msgspec.Struct, frozen=True):
    """What wrk is to do. `bytes_each`: the size of a response, where they last long."""

    senders: Sequence[Sender]
    connections: int
    seconds: float
    kind: Kind = Kind.CHAT
    bytes_each: float = 0


class LoopFigures(msgspec.Struct, frozen=True):
    """What came back, and what it cost."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    gateway_us: float
    """CPU of the server's processes per request."""
    redis_us: float
    denied: float
    """The share that was answered otherwise than by 200."""


class _Wrk(msgspec.Struct):
    requests: int
    seconds: float
    bytes: int
    refused: int
    failed: int
    p50_ms: float
    p99_ms: float


def run(stand: Stand, server: Server, load: Load) -> LoopFigures:
    """Let wrk work on a server. Raises LoadError, ChildError."""
    folder = stand.home / "closed_loop"
    folder.mkdir(exist_ok=True)
    for number, piece in enumerate(server.form.pieces(load.kind), 1):
        (folder / str(number)).write_bytes(piece.encode())
    lines = [f"{sender.host} {sender.key}\n" for sender in load.senders]
    (folder / "senders").write_text("".join(lines))
    command = [debian("wrk"), "--threads", "1", "--connections", str(load.connections)]
    command += ["--duration", f"{load.seconds:g}s", "--timeout", f"{PATIENCE_S}s"]
    command += ["--script", str(FOLDER / "closed_loop.lua"), f"http://127.0.0.1:{server.port}"]
    gateway, redis = cpu_s(server.pid), cpu_s(stand.valkey.child.pid)
    output = stand.output([*command, "--", str(folder)])
    gateway, redis = cpu_s(server.pid) - gateway, cpu_s(stand.valkey.child.pid) - redis
    found = msgspec.json.decode(output.splitlines()[-1], type=_Wrk)
    redis = max(0.0, redis - stand.redis_idle * found.seconds)
    if not found.bytes or found.failed > found.requests * MOST_FAILED:
        raise LoadError(f"{found.requests} answers, {found.failed} connections failed")
    # Of long responses many are under way at the end: the bytes tell how many it were.
    count = found.bytes / load.bytes_each if load.bytes_each else found.requests
    return LoopFigures(
        requests_per_s=count / found.seconds,
        p50_ms=found.p50_ms,
        p99_ms=found.p99_ms,
        gateway_us=gateway * 1e6 / count,
        redis_us=redis * 1e6 / count,
        denied=found.refused / max(1, found.requests),
    )

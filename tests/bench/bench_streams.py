"""Streams of events: what one costs, how long it takes, and the memory of one that is open."""

import socket
import time

from chat import EVENTS, PAUSE_S, Kind, Sender
from closed_loop import Load, LoadError, LoopFigures
from consumption import memory_bytes
from field import Field
from participants import DIRECT_ROW, Participant
from stand import Server, typical
from tables import count, micros, table

STREAMS = (64, 256, 1000)
USUAL = 64
HELD = 1000
HELD_BY_SLOW = 64
STEADY_S = 2.0
PATIENCE_S = 60.0
LONGEST_READ = 65536
SHORTEST_RUN_S, SLOW_S = 3.0, 10.0
"""Some rounds of streams that last half a second each."""
Figures = dict[tuple[str, int], LoopFigures]


def measure(field: Field) -> Figures:
    """The typical figures of each participant with each number of streams that is for it."""
    found: dict[tuple[str, int], list[LoopFigures]] = {}
    for _ in range(field.effort.rounds):
        for participant in field.participants:
            is_short = participant.is_slow or field.effort.is_quick
            for streams in STREAMS[:1] if is_short else STREAMS:
                with field.attempt(participant, f"{streams} streams"):
                    figures = _run(field, participant, streams)
                    found.setdefault((participant.name, streams), []).append(figures)
    return {row: typical(rounds) for row, rounds in found.items()}


def _run(field: Field, participant: Participant, streams: int) -> LoopFigures:
    size = _size(field.server(participant), field.plenty[0])
    seconds = max(SLOW_S if participant.is_slow else SHORTEST_RUN_S, field.effort.seconds)
    return field.loop(participant, Load(field.plenty, streams, seconds, Kind.EVENTS, size))


def held(field: Field) -> dict[str, float]:
    """The memory in bytes that a stream takes while it is open, for each participant."""
    found = {}
    for participant in field.participants:
        with field.attempt(participant, "streams held open"):
            found[participant.name] = _held_bytes(field, participant)
    return found


def _held_bytes(field: Field, participant: Participant) -> float:
    server = field.server(participant)
    number = HELD_BY_SLOW if participant.is_slow else HELD
    before = memory_bytes(server.pid)
    open_streams = []
    try:
        for _ in range(number):
            open_streams.append(_ask(server, Kind.HELD, field.plenty[0]))  # noqa: PERF401 - all are closed, whichever fails
        for stream in open_streams:
            while b"data:" not in _read(stream):
                pass
        time.sleep(STEADY_S)
        return (memory_bytes(server.pid) - before) / number
    finally:
        for stream in open_streams:
            stream.close()


def _size(server: Server, sender: Sender) -> int:
    """The bytes of one response, as they come over the wire."""
    with _ask(server, Kind.EVENTS, sender) as stream:
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += _read(stream)
    if received.count(b"data:") < EVENTS:
        raise LoadError("a stream was not whole")
    return len(received)


def _ask(server: Server, kind: Kind, sender: Sender) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    stream.sendall(server.form.request(kind, sender))
    return stream


def _read(stream: socket.socket) -> bytes:
    received = stream.recv(LONGEST_READ)
    if not received:
        raise LoadError("a stream was broken off")
    return received


def text(field: Field, figures: Figures) -> str:
    """The section."""
    rows = []
    for participant in field.participants:
        for streams in STREAMS:
            if it := figures.get((participant.name, streams)):
                longer = it.p50_ms - EVENTS * PAUSE_S * 1000, it.p99_ms - EVENTS * PAUSE_S * 1000
                costs = micros(it.gateway_us), micros(it.redis_us)
                numbers = (count(it.requests_per_s), *costs, *(f"{late:,.0f}" for late in longer))
                rows.append((participant.title, str(streams), *numbers))
    head = (
        "",
        "streams",
        "responses/s",
        "CPU us/response",
        "Redis CPU us/response",
        "p50 beyond 500 ms",
        "p99 beyond 500 ms",
    )
    return table(head, rows)


def memory_text(field: Field, held_bytes: dict[str, float]) -> str:
    """The section on memory."""
    rows = [
        (
            participant.title,
            f"{field.rest[participant.name] / 1e6:,.0f}",
            f"{held_bytes[participant.name] / 1e3:,.0f}",
        )
        for participant in field.participants
        if participant.name != DIRECT_ROW and participant.name in held_bytes
    ]
    return table(("", "at rest, MB", "for each open stream, kB"), rows)

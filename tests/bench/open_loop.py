"""An open loop in a process of its own: requests leave at a fixed rate, answered or not.

Argument: a file with a Plan as JSON. A request's time runs from the moment at which it was due,
not from that at which it could be sent: whoever stalls is charged for all that had to wait
meanwhile. A request takes a connection that is idle, or a new one. No event loop: its timers would
be coarser than the intervals. Prints RateFigures as JSON; fails at the first answer that is not
200, at the first connection that is closed, and where answers are missing at the end.
"""

import gc
import select
import socket
import sys
import time
from collections import deque
from pathlib import Path

import httptools
import msgspec

WARM_UP_S = 1.0
PATIENCE_S = 10.0
MOST_CONNECTIONS = 1000
LONGEST_READ = 65536
OK = 200


class Plan(msgspec.Struct, frozen=True):
    """Where to, what is sent in turn, how often, and for how long."""

    port: int
    requests: list[bytes]
    per_s: float
    seconds: float


class RateFigures(msgspec.Struct, frozen=True):
    """How long requests took from when they were due."""

    p50_ms: float
    p99_ms: float
    p999_ms: float
    sent_late_ms: float
    """How late the generator itself was, in 99 of 100 cases."""


class Connection:
    """Kept alive; one request at a time."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._parser = httptools.HttpResponseParser(self)
        self.socket = socket.create_connection(("127.0.0.1", run.plan.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes, due: float) -> None:
        """`due` is when it should have been sent."""
        self._due = due
        self._complete = False
        self.socket.sendall(request)

    def read(self) -> None:
        """Something has arrived."""
        received = self.socket.recv(LONGEST_READ)
        if not received:
            raise RuntimeError("a connection was closed")
        self._parser.feed_data(received)
        if self._complete:
            if self._parser.get_status_code() != OK:
                raise RuntimeError(f"an answer had status {self._parser.get_status_code()}")
            self._run.answered(self, self._due)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._complete = True


class Run:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._poll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self._waiting: deque[float] = deque()
        self._sent = 0
        self._took: list[tuple[float, float]] = []
        self._late: list[float] = []

    def run(self) -> RateFigures:
        """Send everything, and wait for the answers. Raises RuntimeError, OSError."""
        try:
            return self._run(time.perf_counter())
        finally:
            for connection in self._connections.values():
                connection.socket.close()
            self._poll.close()

    def _run(self, began: float) -> RateFigures:
        total = int((WARM_UP_S + self.plan.seconds) * self.plan.per_s)
        number, due = 0, began
        while len(self._took) < total:
            now = time.perf_counter()
            while number < total and due <= now:
                self._late.append(now - due)
                self._waiting.append(due)
                number += 1
                due = began + number / self.plan.per_s
            self._send()
            if number == total and now - due > PATIENCE_S:
                raise RuntimeError(f"{total - len(self._took)} answers of {total} are missing")
            self._read(due - now if number < total else 1.0)
        return self._figures(began + WARM_UP_S)

    def answered(self, connection: Connection, due: float) -> None:
        """A connection is idle again."""
        self._took.append((due, time.perf_counter() - due))
        self._idle.append(connection)

    def _send(self) -> None:
        """As much of what is due as there are connections for."""
        while self._waiting and (self._idle or len(self._connections) < MOST_CONNECTIONS):
            connection = self._idle.pop() if self._idle else self._connect()
            request = self.plan.requests[self._sent % len(self.plan.requests)]
            self._sent += 1
            connection.send(request, self._waiting.popleft())

    def _read(self, patience_s: float) -> None:
        """`select` waits for microseconds, `epoll` for milliseconds only."""
        select.select([self._poll.fileno()], [], [], max(0.0, patience_s))
        for number, _ in self._poll.poll(0):
            self._connections[number].read()

    def _connect(self) -> Connection:
        connection = Connection(self)
        number = connection.socket.fileno()
        self._connections[number] = connection
        self._poll.register(number, select.EPOLLIN)
        return connection

    def _figures(self, since: float) -> RateFigures:
        took = sorted(seconds for due, seconds in self._took if due >= since)
        late = sorted(self._late)
        return RateFigures(
            p50_ms=took[len(took) // 2] * 1000,
            p99_ms=took[len(took) * 99 // 100] * 1000,
            p999_ms=took[len(took) * 999 // 1000] * 1000,
            sent_late_ms=late[len(late) * 99 // 100] * 1000,
        )


if __name__ == "__main__":
    gc.disable()  # a pause of ours would be taken for the server's
    figures = Run(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)).run()
    sys.stdout.write(msgspec.json.encode(figures).decode() + "\n")

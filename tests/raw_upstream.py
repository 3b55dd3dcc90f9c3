"""An upstream controlled byte by byte: it sends what a test scripts, and records what comes."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

JSON_ANSWER = b'{"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}'


@dataclass
class Received:
    """One request as it came: the head in full, the body without its chunking, and every byte."""

    head: bytes
    body: bytes
    connection: int
    raw: bytes = b""

    @property
    def target(self) -> bytes:
        return self.head.split(b" ", 2)[1]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case, in their order, repeated ones too."""
        pairs = (line.split(b": ", 1) for line in self.head.split(b"\r\n")[1:] if line)
        return [(name.lower(), value) for name, value in pairs]

    def values(self, name: bytes) -> list[bytes]:
        return [value for found, value in self.headers if found == name]


@dataclass
class Peer:
    """What a script sees of one request, and how it answers."""

    socket: socket.socket
    received: Received
    keep_open: bool = True

    def send(self, *pieces: bytes, every_s: float = 0) -> None:
        """Each piece in a write of its own."""
        for piece in pieces:
            self.socket.sendall(piece)
            time.sleep(every_s)

    def answer(self, body: bytes, *headers: bytes, status: bytes = b"200 OK") -> None:
        """A whole answer with its length; of one to HEAD the head alone."""
        lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
        is_head = self.received.head.startswith(b"HEAD ")
        self.send(b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if is_head else body))

    def json(self, body: bytes = JSON_ANSWER, status: bytes = b"200 OK") -> None:
        self.answer(body, b"Content-Type: application/json", status=status)

    def start_stream(self, content_type: bytes = b"text/event-stream") -> None:
        """A head without a length: chunks follow."""
        self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: " + content_type + b"\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )

    def chunk(self, *pieces: bytes, every_s: float = 0) -> None:
        self.send(*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), every_s=every_s)

    def end_stream(self) -> None:
        self.send(b"0\r\n\r\n")

    def close(self) -> None:
        """End the connection here and now."""
        self.keep_open = False
        self.socket.close()

    def reset(self) -> None:
        """End the connection with a RST, as a crash or a firewall does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def wait_until_left(self, seconds: float = 10) -> bool:
        """Whether the other side closes the connection in time."""
        self.socket.settimeout(seconds)
        with suppress(ConnectionResetError):
            try:
                return self.socket.recv(1) == b""
            except TimeoutError:
                return False
        return True


Script = Callable[[Peer], None]


def answering(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> Script:
    """A script that gives this answer to every request."""
    return lambda peer: peer.answer(body, *headers, status=status)


@dataclass
class RawUpstream:
    """Listens until `stop`. `script` answers every request; `requests` is what came.

    `early`, if there is one, answers instead, when the head is there, and reads no body.
    """

    script: Script = Peer.json
    early: Script | None = None
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    _stopped: bool = False

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        """For the next test."""
        self.script = Peer.json
        self.early = None
        self.requests.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopped:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self.open_connections += 1
                number = self.connections
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection, suppress(OSError):
                wire = _Wire(connection)
                while (received := wire.head(number)) is not None:
                    if self.early:
                        self.early(Peer(connection, received))
                        return
                    wire.read_body(received)
                    self.requests.append(received)
                    peer = Peer(connection, received)
                    self.script(peer)
                    if not peer.keep_open:
                        return
        finally:
            with self._lock:
                self.open_connections -= 1


class _Wire:
    """Reads one request after the other, and keeps every byte of each."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._taken: list[bytes] = []

    def head(self, number: int) -> Received | None:
        """The next one's; None where the connection ends in its place."""
        self._taken = []
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                return None
        return Received(self._line(b"\r\n\r\n"), b"", number)

    def read_body(self, received: Received) -> None:
        """The rest of a request whose head was read."""
        if received.values(b"transfer-encoding") == [b"chunked"]:
            received.body = self._chunks()
        elif length := received.values(b"content-length"):
            received.body = self._take(int(length[0]))
        received.raw = b"".join(self._taken)

    def _chunks(self) -> bytes:
        body = []
        while True:
            size = int(self._line(b"\r\n").split(b";")[0], 16)
            body.append(self._take(size))
            assert self._take(2) == b"\r\n"
            if size == 0:
                return b"".join(body)

    def _line(self, end: bytes) -> bytes:
        while (at := self._buffer.find(end)) < 0:
            self._need()
        return self._take(at + len(end))[: -len(end)]

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._need()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._taken.append(taken)
        return taken

    def _need(self) -> None:
        if not self._more():
            raise ConnectionResetError("the request broke off")

    def _more(self) -> bool:
        piece = self._connection.recv(262_144)
        self._buffer += piece
        return bool(piece)

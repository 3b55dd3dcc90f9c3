"""An upstream controlled byte by byte: it sends what a test scripts, and records what comes."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

JSON_ANSWER = b'{"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}'


@dataclass
class Received:
    """One request as it came: the head in full, the body without its chunking."""

    head: bytes
    body: bytes
    connection: int

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
    """Listens until `stop`. `script` answers every request; `requests` is what came."""

    script: Script = Peer.json
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
                buffer = b""
                while True:
                    received, buffer = _read_request(connection, buffer, number)
                    if received is None:
                        return
                    self.requests.append(received)
                    peer = Peer(connection, received)
                    self.script(peer)
                    if not peer.keep_open:
                        return
        finally:
            with self._lock:
                self.open_connections -= 1


def _read_request(
    connection: socket.socket, buffer: bytes, number: int
) -> tuple[Received | None, bytes]:
    while b"\r\n\r\n" not in buffer:
        piece = connection.recv(65536)
        if not piece:
            return None, b""
        buffer += piece
    head, _, buffer = buffer.partition(b"\r\n\r\n")
    received = Received(head, b"", number)
    if received.values(b"transfer-encoding") == [b"chunked"]:
        received.body, buffer = _read_chunks(connection, buffer)
    elif length := received.values(b"content-length"):
        buffer = _at_least(connection, buffer, int(length[0]))
        received.body, buffer = buffer[: int(length[0])], buffer[int(length[0]) :]
    return received, buffer


def _read_chunks(connection: socket.socket, buffer: bytes) -> tuple[bytes, bytes]:
    body = []
    while True:
        while b"\r\n" not in buffer:
            buffer = _at_least(connection, buffer, len(buffer) + 1)
        line, _, buffer = buffer.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        buffer = _at_least(connection, buffer, size + 2)
        body.append(buffer[:size])
        buffer = buffer[size + 2 :]
        if size == 0:
            return b"".join(body), buffer


def _at_least(connection: socket.socket, buffer: bytes, size: int) -> bytes:
    pieces, total = [buffer], len(buffer)
    while total < size:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionResetError("the request broke off")
        pieces.append(piece)
        total += len(piece)
    return b"".join(pieces)

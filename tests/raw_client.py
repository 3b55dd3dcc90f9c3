"""A client that sends exactly the bytes it is given, and keeps an answer as it came."""

import json
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

TIMEOUT_S = 15
_NO_BODY = (204, 304)


@dataclass
class Answer:
    """Status, headers in their order, the body without its chunking.

    `ended` is whether the framing said that this is all: an answer that broke off has not.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    ended: bool = False

    def values(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found.lower() == name.lower()]

    def get(self, name: str) -> str | None:
        """The one value of a field; None where it is not there."""
        values = self.values(name)
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
    *,
    chunks: Iterable[bytes] | None = None,
) -> bytes:
    """The bytes of one request: with a length if `body` is given, chunked if `chunks` are."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if not any(name.lower() == "host" for name, _ in headers):
        lines.insert(1, "Host: ibex.test")
    if chunks is not None:
        lines.append("Transfer-Encoding: chunked")
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in chunks) + b"0\r\n\r\n"
    elif body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


class RawClient:
    """One connection. `receive_buffer` bounds what the kernel takes in for a slow reader."""

    def __init__(
        self, port: int, *, receive_buffer: int | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(timeout_s)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def half_close(self) -> None:
        """Say that nothing more comes, and go on reading."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leave with a RST, as a killed process behind a router does."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def read_slowly(self, bytes_per_s: int, seconds: float) -> int:
        """Take that much of what comes; returns how many bytes that was."""
        taken, end = 0, time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0:
            taken += len(self._socket.recv(max(1, bytes_per_s // 10)))
            time.sleep(min(0.1, left_s))
        return taken

    def head(self) -> Answer:
        """Status and headers, as soon as they are there."""
        while b"\r\n\r\n" not in self._buffer:
            assert self._more(), f"the answer broke off in its head: {self._buffer!r}"
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return Answer(int(status.split(" ")[1]), [(name, value) for name, value in pairs])

    def answer(self, method: str = "GET") -> Answer:
        """The whole answer, or what there is of it when the connection ends."""
        answer = self.head()
        if method == "HEAD" or answer.status in _NO_BODY:
            answer.ended = True
        elif answer.get("transfer-encoding") == "chunked":
            while (piece := self.chunk()) is not None:
                answer.body += piece
                answer.ended = not piece
                if not piece:
                    break
        else:
            length = int(answer.get("content-length") or 0)
            while len(self._buffer) < length and self._more():
                pass
            answer.body, self._buffer = self._buffer[:length], self._buffer[length:]
            answer.ended = len(answer.body) == length
        return answer

    def chunk(self) -> bytes | None:
        """The next chunk: empty at the end of the answer, None where the connection ended."""
        while b"\r\n" not in self._buffer:
            if not self._more():
                return None
        line, _, rest = self._buffer.partition(b"\r\n")
        size = int(line, 16)
        while len(rest) < size + 2:
            if not (more := self._receive()):
                return None
            rest += more
        self._buffer = rest[size + 2 :]
        return rest[:size]

    def answer_body(self) -> bytes:
        """What is left of a chunked answer, up to its end."""
        return b"".join(iter(self.chunk, b""))  # type: ignore[arg-type]

    def read_to_the_end(self) -> bytes:
        """Whatever comes until the other side ends the connection."""
        while self._more():
            pass
        return self._buffer

    def is_closed(self) -> bool:
        """Whether the other side ends the connection, after nothing more than what was read."""
        return not self._buffer and not self._receive()

    def _more(self) -> bool:
        piece = self._receive()
        self._buffer += piece
        return bool(piece)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(262_144)
        except ConnectionResetError:
            return b""


def exchange(port: int, data: bytes) -> Answer:
    """Send one request on a connection of its own."""
    with RawClient(port) as client:
        client.send(data)
        return client.answer(data.partition(b" ")[0].decode("latin-1"))

"""Memory of the gateway's process while much passes through it, and while it cannot pass on."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway
from raw_calls import CHAT, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, eventually

SIZE = 200_000_000
PIECE = bytes(range(256)) * 3906  # just below a megabyte
ADDED = 30_000_000
"""The most that may be added while `SIZE` bytes pass."""
HELD_BACK = 5_000_000
"""The same while a slow client takes nearly nothing of 20 MB."""
EVENTS = 10_000
EVENT = b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % (b"a" * 2000)
Tell = Callable[[str], None]


@pytest.fixture
def roomy(start_gateway: StartGateway, redis_server: RedisServer) -> Stack:
    """A gateway that takes large bodies."""
    return start_gateway(redis_server, REQUEST_MAX_BYTES="1000000000", LIMITER_DEADLINE_MS="5000")


class Peak:
    """The most resident memory that a process has had since, in bytes, beyond what it had then."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # forgets the peak so far
        self._before = self._read("VmRSS")

    @property
    def added(self) -> int:
        return self._read("VmHWM") - self._before

    def _read(self, name: str) -> int:
        status = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        (line,) = (line for line in status if line.startswith(name))
        return int(line.split()[1]) * 1024


@contextmanager
def bounded(stack: Stack, tell: Tell, most: int = ADDED) -> Iterator[None]:
    """Within the block not more than `most` bytes are added; the figure is printed."""
    peak = Peak(stack.gateway.pid)
    yield
    tell(f"memory added at most: {peak.added / 1e6:.1f} MB")
    assert peak.added < most
    limiter = stack.gateway.readyz()["limiter"]
    assert (limiter["admitted_open"], limiter["broken"]) == (0, 0)


def pieces() -> Iterator[bytes]:
    for _ in range(SIZE // len(PIECE)):
        yield PIECE


def digest_of_all() -> str:
    return digest(pieces())


def digest(parts: Iterator[bytes]) -> str:
    seen = hashlib.blake2b()
    for part in parts:
        seen.update(part)
    return seen.hexdigest()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_upload_is_not_kept(
    roomy: Stack, raw: RawUpstream, tell: Tell, chunked: bool
) -> None:
    """200 MB reach the upstream unchanged, with a length or in chunks, and are not taken apart."""
    tenant = provision(roomy)
    head = fields(tenant.agent, {"Content-Type": "multipart/form-data; boundary=x"})
    size = SIZE // len(PIECE) * len(PIECE)
    framing = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(size))
    with bounded(roomy, tell), RawClient(roomy.gateway.port) as client:
        client.send(request("POST", "/raw/v1/files", [*head, framing]))
        for piece in pieces():
            client.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        client.send(b"0\r\n\r\n" if chunked else b"")
        assert client.answer("POST").status == 200
    (received,) = raw.requests
    assert digest(iter([received.body])) == digest_of_all()


def test_a_large_download_is_not_kept(roomy: Stack, raw: RawUpstream, tell: Tell) -> None:
    """200 MB reach the client unchanged, however fast the upstream is."""
    tenant = provision(roomy)

    def script(peer: Peer) -> None:
        peer.start_stream(b"application/octet-stream")
        peer.chunk(*pieces())
        peer.end_stream()

    raw.script = script
    with bounded(roomy, tell), RawClient(roomy.gateway.port) as client:
        client.send(request("GET", "/raw/v1/files/1/content", fields(tenant.agent)))
        assert client.head().status == 200
        assert digest(iter(client.chunk, b"")) == digest_of_all()  # type: ignore[arg-type]


def test_a_slow_reader_of_many_events_costs_little(
    roomy: Stack, raw: RawUpstream, tell: Tell
) -> None:
    """10,000 events for a client that takes 10 kB a second, of which we watch a few seconds."""
    tenant = provision(roomy)
    written = threading.Event()

    def script(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(*[EVENT] * EVENTS)
        written.set()
        peer.end_stream()

    raw.script = script
    with (
        bounded(roomy, tell, HELD_BACK),
        RawClient(roomy.gateway.port, receive_buffer=16_384) as client,
    ):
        client.send(request("POST", CHAT, fields(tenant.agent), chat(stream=True)))
        assert client.head().status == 200
        assert 20_000 < client.read_slowly(10_000, 4) < 80_000
    assert eventually(lambda: Counters(roomy, tenant).open() == 0)

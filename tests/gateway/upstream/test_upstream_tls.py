"""Upstreams over TLS: certificates are verified, names too, and HTTP/1.1 is agreed on."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from asking import Ask
from waiting import comes_true

from gateway.upstream.lean import LeanTransport

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Certify = Callable[..., Path]


@pytest.fixture(scope="module")
def certify(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certify]:
    """`certify("IP:127.0.0.1")`: a file with a certificate of our own authority, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    made: dict[tuple[str, ...], Path] = {}

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    def certified(names: str, *validity: str) -> Path:
        key = (names, *validity)
        if key not in made:
            stem = f"server-{len(made)}"
            (folder / "names").write_text(f"subjectAltName={names}\n")
            openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server",
                    "-keyout", f"{stem}.key", "-out", f"{stem}.csr")  # fmt: skip
            openssl("x509", "-req", "-in", f"{stem}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                    "-CAcreateserial", "-extfile", "names", "-out", f"{stem}.crt",
                    *(validity or ("-days", "2")))  # fmt: skip
            made[key] = folder / f"{stem}.crt"
        return made[key]

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=authority",
            "-days", "2", "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
    return certified


class TlsUpstream:
    """What it saw of its clients."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.names: list[str | None] = []
        self.protocols: list[str | None] = []
        self.open = 0


@asynccontextmanager
async def served(certificate: Path, *alpn: str) -> AsyncIterator[TlsUpstream]:
    """An upstream with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    if alpn:
        context.set_alpn_protocols(list(alpn))

    def asked(_socket: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        upstream.names.append(name)

    context.sni_callback = asked  # type: ignore[assignment]  # any callable

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream.open += 1
        upstream.protocols.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            upstream.open -= 1
            writer.close()

    upstream = TlsUpstream(0)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    upstream.port = server.sockets[0].getsockname()[1]
    yield upstream
    server.close()
    await server.wait_closed()


@asynccontextmanager
async def trusting(certificate: Path) -> AsyncIterator[LeanTransport]:
    """A transport that trusts our authority."""
    context = ssl.create_default_context(cafile=certificate.with_name("ca.crt"))
    async with LeanTransport(context) as lean:
        yield lean


@pytest.mark.parametrize(
    ("host", "names", "sni"),
    [("localhost", "DNS:localhost", "localhost"), ("127.0.0.1", "IP:127.0.0.1", None)],
)
async def test_a_trusted_upstream_is_spoken_to(
    certify: Certify, host: str, names: str, sni: str | None
) -> None:
    """By name, which is told, or by address; on one connection, with HTTP/1.1 agreed on."""
    certificate = certify(names)
    async with served(certificate, "h2", "http/1.1") as upstream:
        async with trusting(certificate) as lean:
            ask = Ask(lean, f"https://{host}:{upstream.port}")
            for _ in range(3):
                assert (await ask.whole())[2] == b"hello"
            assert (lean.opened, lean.idle) == (1, 1)
        assert upstream.names == [sni]
        assert upstream.protocols == ["http/1.1"]
        assert await comes_true(lambda: upstream.open == 0)


async def test_no_agreement_on_the_protocol_is_http_1(certify: Certify) -> None:
    """Servers without ALPN speak it anyway."""
    certificate = certify("IP:127.0.0.1")
    async with served(certificate) as upstream, trusting(certificate) as lean:
        assert (await Ask(lean, f"https://127.0.0.1:{upstream.port}").whole())[2] == b"hello"


REFUSED = [("DNS:elsewhere.test", ()), ("IP:127.0.0.2", ()), ("IP:127.0.0.1", ("-days", "-1"))]


@pytest.mark.parametrize(("names", "validity"), REFUSED)
async def test_a_certificate_for_others_or_of_the_past_is_refused(
    certify: Certify, names: str, validity: tuple[str, ...]
) -> None:
    """Nothing is sent, the reason is told, and no connection stays."""
    certificate = certify(names, *validity)
    async with served(certificate) as upstream, trusting(certificate) as lean:
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            await Ask(lean, f"https://127.0.0.1:{upstream.port}")()
        assert (lean.opened, lean.open) == (0, 0)
        assert await comes_true(lambda: upstream.open == 0)


async def test_an_unknown_authority_is_refused(certify: Certify) -> None:
    """By default those of the system are trusted, and nobody else."""
    async with served(certify("IP:127.0.0.1")) as upstream, LeanTransport() as lean:
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            await Ask(lean, f"https://127.0.0.1:{upstream.port}")()


async def test_an_authority_may_be_named_in_the_environment(
    certify: Certify, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SSL_CERT_FILE, as for other programs."""
    certificate = certify("IP:127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("ca.crt")))
    async with served(certificate) as upstream, LeanTransport() as lean:
        assert (await Ask(lean, f"https://127.0.0.1:{upstream.port}").whole())[2] == b"hello"


async def test_a_plain_upstream_is_not_spoken_to_over_tls(wire_port: int) -> None:
    """A clear error instead of bytes that nobody understands."""
    async with LeanTransport() as lean:
        with pytest.raises(httpx.ConnectError):
            await Ask(lean, f"https://127.0.0.1:{wire_port}")()
        assert lean.open == 0


@pytest.fixture
async def wire_port() -> AsyncIterator[int]:
    """A server that answers whatever it gets in plain text."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("cancelled", [True, False])
async def test_an_upstream_that_never_shakes_hands_costs_nothing(cancelled: bool) -> None:
    """The time to connect covers the handshake, and the socket is closed at once."""
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(10_000):
            pass
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with LeanTransport() as lean:
        ask = Ask(lean, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        if cancelled:
            task = asyncio.create_task(ask())
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            ask.connect_s = 0.2
            with pytest.raises(httpx.ConnectTimeout):
                await ask()
        await asyncio.wait_for(left.wait(), 5)
        assert (lean.open, lean.waiting) == (0, 0)
    server.close()
    await server.wait_closed()


async def test_large_bodies_pass_both_ways_over_tls(certify: Certify) -> None:
    """Held back and gone on with, as without TLS."""
    certificate = certify("IP:127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    body = bytes(range(256)) * 40_000  # 10 MB

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                got = await reader.readexactly(len(body))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(got) + got)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with trusting(certificate) as lean:
        ask = Ask(lean, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(2):
            response = await ask("POST", body=body)
            await asyncio.sleep(0.2)
            assert response.is_closed is False
            got = [piece async for piece in response.stream]  # type: ignore[union-attr]
            assert b"".join(got) == body
        assert lean.opened == 1
    server.close()
    await server.wait_closed()

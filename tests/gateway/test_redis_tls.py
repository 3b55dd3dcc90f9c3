"""Redis over TLS with a certificate of its own, as some platforms have it."""

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gateway_stack import StartGateway
from raw_calls import provision
from servers import RedisServer
from traffic import REDIS_DOWN, chat, limiter_state

pytestmark = [
    pytest.mark.usefixtures("raw"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate"),
]


def certificate(folder: Path) -> Path:
    """Self-signed for 127.0.0.1, with its key beside it."""
    file, key = folder / "redis.crt", folder / "redis.key"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {file}"
    names = ["-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return file


@asynccontextmanager
async def tls_in_front_of(server: RedisServer, file: Path) -> AsyncIterator[str]:
    """A relay that speaks TLS with this certificate: the `rediss://` address of the server."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, file.with_suffix(".key"))
    running: set[asyncio.Task[Any]] = set()

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.current_task())  # type: ignore[arg-type]  # we run in one
        there, back = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield server.url.replace("redis://", "rediss://").replace(f":{server.port}/", f":{port}/")
    finally:
        listener.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await listener.wait_closed()


@pytest.mark.parametrize("setting", ["REDIS_CA_FILE", "REDIS_TLS_VERIFY"])
async def test_a_self_signed_redis_is_trusted_as_configured(
    redis_server: RedisServer, start_gateway: StartGateway, tmp_path: Path, setting: str
) -> None:
    """By its certificate, or unseen: limits hold, and changes are heard over TLS as well."""
    file = certificate(tmp_path)
    value = {"REDIS_CA_FILE": str(file), "REDIS_TLS_VERIFY": "false"}[setting]

    def check(url: str) -> None:
        stack = start_gateway(
            redis_server, REDIS_URL=url, CONFIG_POLL_S="600", LIMITER_DEADLINE_MS="2000",
            **{setting: value},
        )  # fmt: skip
        tenant = provision(stack, org_rpm=1)
        assert [chat(stack, tenant.agent).status for _ in range(2)] == [200, 429]
        assert stack.gateway.readyz()["limiter"]["admitted_open"] == 0
        stack.gateway.stop()

    async with tls_in_front_of(redis_server, file) as url:
        await asyncio.to_thread(check, url)


async def test_a_self_signed_redis_that_nobody_trusts_is_told_loudly(
    redis_server: RedisServer, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Without a setting the certificate is refused: no limits, and a line that says why."""

    def check(url: str) -> None:
        stack = start_gateway(redis_server, REDIS_URL=url, CONFIG_POLL_S="0.2")
        tenant = provision(stack)
        assert chat(stack, tenant.agent).is_open
        lines = [json.loads(line) for line in stack.gateway.log.splitlines()]
        (line,) = [line for line in lines if line["event"] == REDIS_DOWN]
        assert "certificate" in line["reason"].lower()
        assert limiter_state(stack) == "open"
        stack.gateway.kill()  # it would try for seconds to settle

    async with tls_in_front_of(redis_server, certificate(tmp_path)) as url:
        await asyncio.to_thread(check, url)

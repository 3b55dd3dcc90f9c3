"""The test stand: every process of the benchmark, on loopback, ended with it."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from string import Template
from typing import TypeVar

import msgspec
from chat import ANSWER, EVENT, EVENTS, LAST_EVENT, PAUSE_S, Form, Kind
from tools import NGINX_MODULES, ROOT, debian

from gateway.children import Child
from gateway.cli.dev_processes import Address
from gateway.embedded import HOST, Valkey, free_port, password_of
from gateway.embedded_postgres import Postgres

READY_S = 90.0
CLIENT_S = 180.0
FOLDER = Path(__file__).parent
CONFIGURATIONS = FOLDER / "participants"
PLENTY = 10**9
"""Requests per minute that nobody reaches."""
DIRECT = Form({kind: "" if kind is Kind.CHAT else f"/{kind}" for kind in Kind})
"""What the upstream is asked for."""

T = TypeVar("T", bound=msgspec.Struct)


class Effort(msgspec.Struct, frozen=True):
    """How long to measure: the seconds of each run, and the rounds, whose medians count."""

    rounds: int
    seconds: float
    is_quick: bool = False


class Server(msgspec.Struct, frozen=True):
    """An HTTP server under test."""

    port: int
    pid: int
    form: Form = DIRECT

    @property
    def address(self) -> Address:
        return Address(HOST, self.port)


class Stand:
    """Valkey and Postgres as `ibex dev` runs them, the upstream, and whatever is started beside."""

    def __init__(self, home: Path, exits: ExitStack) -> None:
        self.home = home
        self._exits = exits
        self.valkey = Valkey(home / "valkey")
        self.postgres = Postgres(home / "postgres", durable=False)
        for server in (self.valkey, self.postgres):
            exits.callback(server.stop)
            server.start()
        self.redis_idle = 0.0
        """CPU seconds per second of the Redis server when nobody sends anything."""
        self.upstream = self.nginx("upstream.conf")
        self.upstream_url = self.upstream.address.url

    def script(self, name: str, *arguments: object) -> list[str]:
        """The command line of a program of this folder."""
        return [sys.executable, str(FOLDER / f"{name}.py"), *map(str, arguments)]

    def configuration(self, name: str, **values: object) -> Path:
        """A file of `participants/` with its blanks filled, where its reader may read it."""
        text = Template((CONFIGURATIONS / name).read_text())
        path = self.home / name
        path.write_text(
            text.substitute(
                values,
                home=self.home,
                plenty=PLENTY,
                redis_url=self.valkey.url,
                redis_port=self.valkey.port,
                redis_password=password_of(self.valkey.home),
            )
        )
        return path

    def nginx(self, name: str, **values: object) -> Server:
        """An nginx with a configuration of `participants/`. Raises MissingError, ChildError."""
        port = free_port()
        path = self.configuration(
            name,
            port=port,
            modules=NGINX_MODULES,
            folder=CONFIGURATIONS,
            answer=ANSWER,
            event=EVENT,
            last=LAST_EVENT,
            events=EVENTS,
            pause_s=PAUSE_S,
            **values,
        )
        prefix = self.home / path.stem
        prefix.mkdir()
        return self.serve(path.stem, [debian("nginx"), "-p", str(prefix), "-c", str(path)], port)

    def serve(
        self,
        name: str,
        command: Sequence[str],
        port: int,
        env: Mapping[str, str] | None = None,
        *,
        form: Form = DIRECT,
        ready: str = "/healthz",
    ) -> Server:
        """Start an HTTP server and wait until `ready` is answered. Raises ChildError."""
        child = Child(name, self.home)
        self._exits.callback(child.stop)
        child.start(command, env=_environment(env or {}), cwd=self.home)
        server = Server(port, child.pid, form)
        child.wait_until(lambda: server.address.answers(ready), READY_S)
        return server

    def output(self, command: Sequence[str]) -> bytes:
        """What a client prints when it has ended. Raises ChildError."""
        client = Child("client", self.home)
        self._exits.callback(client.kill)
        client.start(command, env=_environment({}))
        client.finish(CLIENT_S)
        assert client.log is not None
        return client.log.read_bytes()

    def figures(self, command: Sequence[str], kind: type[T]) -> T:
        """What a client prints as JSON. Raises ChildError."""
        return msgspec.json.decode(self.output(command), type=kind)

    def keep(self, name: str, value: msgspec.Struct) -> Path:
        """A file with the value as JSON, for a client to read."""
        path = self.home / name
        path.write_bytes(msgspec.json.encode(value))
        return path


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a process sees: the packages are those of this working tree."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT), **env}


def typical(rounds: Sequence[T]) -> T:
    """The median of each figure over the rounds."""
    columns = zip(*map(msgspec.structs.astuple, rounds), strict=True)
    return type(rounds[0])(*map(median, columns))

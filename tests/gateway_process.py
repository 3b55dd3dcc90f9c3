"""A gateway as it runs for its users: `ibex serve` in a process of its own."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servers import eventually

from gateway.embedded import free_port

START_S = 30
STOP_S = 30


def answers(port: int, path: str) -> bool:
    """Whether somebody answers 200 there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


class GatewayProcess:
    """Starts at once and waits until it is ready, unless `wait` is False."""

    def __init__(self, log: Path, env: Mapping[str, str], *options: str, wait: bool = True) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "serve", "--host", "127.0.0.1",
                 "--port", str(self.port), *options],
                env={**keep, **env},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # whose workers do not start is killed as a group
            )  # fmt: skip
        if wait:
            ready = eventually(lambda: self._process.poll() is not None or self.ready(), START_S)
            assert ready, self.log
            assert self.running, self.log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text("utf-8", "replace")

    def ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and decoded JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def readyz(self) -> dict[str, Any]:
        """What it says of itself."""
        body = self.get("/readyz")[1]
        assert isinstance(body, dict)
        return body

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float = STOP_S) -> int:
        """Its exit code."""
        return self._process.wait(seconds)

    def stop(self) -> None:
        """In good order; safe to call twice."""
        if self.running:
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
                raise

"""An `ibex dev` for tests, as somebody runs it in a terminal."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from servers import eventually

STOP_SECONDS = 25


class Dev:
    """An `ibex dev` on a free port, with its output in a file."""

    def __init__(
        self,
        data: Path,
        *options: str,
        env: dict[str, str] | None = None,
        python: str = sys.executable,
        **account: Any,
    ) -> None:
        self.data = data
        self.port = "0"
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("UPSTREAM_", "DATABASE_URL", "REDIS_URL"))
        }
        with tempfile.TemporaryFile() as output:
            self._output = os.dup(output.fileno())
            self.process = subprocess.Popen(
                [python, "-m", "gateway", "dev", "--port=0", f"--data={data}", *options],
                env=inherited | (env or {}),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **account,
            )

    @property
    def output(self) -> str:
        size = os.fstat(self._output).st_size
        return os.pread(self._output, size, 0).decode()

    @property
    def info(self) -> dict[str, Any]:
        """What `dev.json` says."""
        content: dict[str, Any] = json.loads((self.data / "dev.json").read_bytes())
        return content

    def ready(self) -> "Dev":
        """Wait until it says that everything is there."""
        done = eventually(
            lambda: "Ctrl-C stops everything" in self.output or self.process.poll() is not None, 60
        )
        assert done, self.output
        assert self.process.poll() is None, self.output
        return self

    def ended(self) -> int:
        """Its exit code, after nothing of it is left."""
        return self.process.wait(STOP_SECONDS)

    def status(self, path: str, key: str | None = None) -> int:
        """The status that the gateway answers to a GET."""
        address = urlsplit(self.info["base_url"])
        connection = http.client.HTTPConnection(address.netloc, timeout=10)
        try:
            connection.request(
                "GET", path, headers={"Authorization": f"Bearer {key}"} if key else {}
            )
            return connection.getresponse().status
        finally:
            connection.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self._output)


StartDev = Callable[..., Dev]

"""Several worker processes behind one socket: the parent only starts, watches and ends them.

Each worker is an `ibex serve` of its own on the parent's listening socket. SIGTERM or SIGINT, once
or more often, ends all in good order. A worker that dies is replaced; one that dies right after its
start ends everything, because its successors would too. Workers do not outlive a killed parent.
"""

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from gateway.children import tethered
from gateway.metrics import mark_ended

POLL_S = 0.1
EARLY_S = 5.0
BACKLOG = 1024
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = structlog.get_logger("ibex.workers")


def listen(host: str, port: int) -> socket.socket:
    """The socket that all workers accept from. Raises OSError where it cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


class Workers:
    """`run` returns the exit code of the whole."""

    def __init__(
        self,
        listener: socket.socket,
        count: int,
        env: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> None:
        self._listener = listener
        self._count = count
        self._env = env
        self._options = options
        self._started: dict[subprocess.Popen[bytes], float] = {}
        self._stopping = False
        self._exit_code = 0

    def run(self) -> int:
        """Serve until told to stop; 1 where a worker could not be kept alive."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        with tempfile.TemporaryDirectory(prefix="ibex-workers-") as folder:
            self._numbers = Path(folder)
            self._watch()
        return self._exit_code

    def _watch(self) -> None:
        while self._started or not self._stopping:
            while len(self._started) < self._count and not self._stopping:
                self._start()
            time.sleep(POLL_S)
            for worker in [worker for worker in self._started if worker.poll() is not None]:
                self._ended(worker)

    def _start(self) -> None:
        number = str(self._listener.fileno())
        serve = [sys.executable, "-m", "gateway", "serve", *self._options]
        command = [*serve, "--inherited-socket", number, "--numbers", str(self._numbers)]
        worker = subprocess.Popen(  # noqa: S603 - our own command, no shell
            tethered(command, signal.SIGTERM),
            env=self._env,
            pass_fds=(self._listener.fileno(),),
            start_new_session=True,
        )
        self._started[worker] = time.monotonic()
        if self._stopping:  # told so while it was started
            worker.terminate()

    def _ended(self, worker: subprocess.Popen[bytes]) -> None:
        mark_ended(self._numbers, worker.pid)
        lived_s = time.monotonic() - self._started.pop(worker)
        if self._stopping:
            self._exit_code = self._exit_code or worker.returncode
            return
        log.error("a worker has died", pid=worker.pid, exit_code=worker.returncode)
        if lived_s < EARLY_S:
            self._exit_code = 1
            self._stop()

    def _stop(self, *_: object) -> None:
        self._stopping = True
        self._listener.close()  # new connections are refused as soon as the workers close theirs
        for worker in self._started:
            worker.terminate()

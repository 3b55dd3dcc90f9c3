"""Processes that we start, watch and end.

A `Child` leaves nothing behind. It runs in a session of its own, so that Ctrl-C in a terminal
reaches only its starter, which then ends its children in order. It dies with its starter
(`gateway.tether`). And it inherits the lock on its pid file: as long as that lock is held, the
process or one that it forked is alive, so the next start finds what a killed starter left, whatever
became of the number. Blocking, and to be started from the main thread, whose end is what Linux
takes for the starter's death.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gateway import tether

POLL_SECONDS = 0.02
ORPHAN_SECONDS = 20.0
LOG_LINES = 15


class ChildError(RuntimeError):
    """A process did not start, or ended by itself. The message quotes the end of its log."""


class Account(NamedTuple):
    """Who a child runs as, when we are root and it shall not be."""

    uid: int
    gid: int


class Child:
    """One process, with `NAME.pid` in its home, and `NAME.log` unless it shares our terminal."""

    def __init__(
        self,
        name: str,
        home: Path,
        *,
        stop_signal: signal.Signals = signal.SIGTERM,
        logged: bool = True,
    ) -> None:
        self.name = name
        self.home = home
        self.stop_signal = stop_signal
        self.log = home / f"{name}.log" if logged else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(
        self,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        account: Account | None = None,
        inherit: Sequence[int] = (),
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """Start `command` (an absolute path first), after what an earlier starter left has ended.

        `prepare` is called in between, when nothing else can be at work in `home`.

        Raises:
            ChildError: that one cannot be ended, or the command cannot be run.
        """
        assert not self.running, f"{self.name} is running"
        lock = self._claim()
        try:
            prepare()
            with self._output() as output, _signals_deferred():
                self._process = subprocess.Popen(  # noqa: S603 - no shell, our own command
                    tethered(command, self.stop_signal, account),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=cwd,
                    env=env,
                    pass_fds=(lock, *inherit),
                    start_new_session=True,
                )
                os.truncate(lock, 0)
                os.pwrite(lock, f"{self.pid}\n".encode(), 0)
        finally:
            os.close(lock)

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait until `ready()`.

        Raises:
            ChildError: the process ended before, or is not ready in time (it is stopped then).
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise self.failure("did not start")
            if time.monotonic() > deadline:
                self.stop(seconds=2)
                raise self.failure(f"was not ready after {seconds:g} s")
            time.sleep(POLL_SECONDS)

    def finish(self, seconds: float) -> None:
        """Wait for a process that ends by itself.

        Raises:
            ChildError: it failed, or takes longer (it is killed then).
        """
        assert self._process is not None, f"{self.name} was not started"
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failure(f"did not end within {seconds:g} s") from None
        if code != 0:
            raise self.failure(f"failed with exit code {code}")

    def stop(self, seconds: float = 10.0) -> None:
        """Ask the process to end, wait for `seconds`, then kill it and what it started."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(self.stop_signal)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """SIGKILL for the process and every one that it started in its session."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):  # macOS: EPERM when all are gone
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def failure(self, what: str) -> ChildError:
        """The error that says `what` happened to this child, with the last lines of its log."""
        if self.log is None:
            return ChildError(f"{self.name} {what}")
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return ChildError("\n  ".join([f"{self.name} {what}; {self.log} ends with:", *lines]))

    @contextmanager
    def _output(self) -> Iterator[int | None]:
        """Where the process writes: a new log, or (None) where we do."""
        if self.log is None:
            yield None
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        output = os.open(self.log, flags, 0o600)
        try:
            yield output
        finally:
            os.close(output)

    def _claim(self) -> int:
        """The locked pid file, after what still held it has gone."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.home / f"{self.name}.pid"
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if try_lock(lock):
            return lock
        orphan = int(os.pread(lock, 32, 0) or 0)
        for signal_number in (self.stop_signal, signal.SIGKILL):
            if orphan:
                with suppress(ProcessLookupError):
                    os.kill(orphan, signal_number)
            deadline = time.monotonic() + ORPHAN_SECONDS
            while time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
                if try_lock(lock):
                    return lock
        os.close(lock)
        raise ChildError(f"{self.name} of an earlier run is still there (pid {orphan}, {path})")


def tethered(
    command: Sequence[str | Path], death_signal: signal.Signals, account: Account | None = None
) -> list[str]:
    """The command line of a process that dies with this one, as `account` if one is given."""
    who = "-" if account is None else f"{account.uid}:{account.gid}"
    launcher = [sys.executable, "-I", "-S", tether.__file__]
    return [*launcher, str(os.getpid()), str(int(death_signal)), who, *map(str, command)]


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Hold signals back: a handler that raises would lose a process that has just been made."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def try_lock(lock: int) -> bool:
    """Lock an open file until the last copy of it is closed. False: another process holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

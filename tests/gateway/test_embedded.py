"""The embedded Valkey, and what holds for both servers, as real processes."""

import socket
import stat
import subprocess
from pathlib import Path

import pytest
import redis
from processes import NOBODY, as_root, command_lines, home_of_nobody, python_of_nobody
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import PostgresServer, RedisServer, StartRedis, ask, connect, eventually

from gateway.children import ChildError
from gateway.embedded import PortTakenError, Valkey, free_port, password_of, require_free
from gateway.embedded_postgres import Postgres


def listening_addresses(port: int) -> list[str]:
    """The local addresses, in the kernel's spelling, on which somebody listens on the port."""
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    listening = "0A"
    return [
        row[1].partition(":")[0]
        for row in lines
        if row[3] == listening and int(row[1].partition(":")[2], 16) == port
    ]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_valkey_keeps_its_data(start_redis: StartRedis, end: str) -> None:
    """What was written before a stop is there after the next start; a kill costs a second."""
    server = start_redis()
    with connect(server.url) as client:
        client.set("answer", 42)
        assert eventually(lambda: client.info("persistence")["aof_pending_bio_fsync"] == 0)

    getattr(server, end)()
    server.start()

    with connect(server.url) as client:
        assert client.get("answer") == "42"


def test_valkey_refuses_without_the_password(redis_server: RedisServer) -> None:
    """Other users of this machine reach the port, and get nothing."""
    with (
        redis.Redis(port=redis_server.port, retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


def test_servers_listen_on_loopback_tcp_only(
    redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    """Nothing is open to the network, and no socket file to other users."""
    loopback = "0100007F"
    assert listening_addresses(redis_server.port) == [loopback]
    assert listening_addresses(postgres_server.port) == [loopback]
    assert f".s.PGSQL.{postgres_server.port}" not in Path("/proc/net/unix").read_text()


def test_passwords_are_private(redis_server: RedisServer, postgres_server: PostgresServer) -> None:
    """No command line shows them, no log, and no file that others can read."""
    passwords = [password_of(server.home) for server in (redis_server, postgres_server)]
    homes = (redis_server.home, postgres_server.home)
    shown = command_lines() + "".join(
        log.read_text() for home in homes for log in home.glob("*.log")
    )

    assert not any(password in shown for password in passwords)
    assert all(stat.S_IMODE(home.stat().st_mode) == 0o700 for home in homes)
    assert all(stat.S_IMODE((home / "password").stat().st_mode) == 0o600 for home in homes)
    assert stat.S_IMODE((redis_server.home / "valkey.conf").stat().st_mode) == 0o600


def test_servers_work_below_a_home_that_only_its_owner_can_enter(tmp_path: Path) -> None:
    """Postgres's account need not reach the folders above its data."""
    home = tmp_path / 'a home\'s "name"'
    home.mkdir(mode=0o700)
    servers = RedisServer(home / "valkey"), PostgresServer(home / "postgres")

    for server in servers:
        server.start()

    with connect(servers[0].url) as client:
        assert client.ping()
    assert ask(servers[1].url, "SELECT 1") == 1
    for server in servers:
        server.stop()


@as_root
def test_servers_run_for_an_ordinary_user() -> None:
    """Without root, both run as the user that starts them, and keep their data."""
    program = (
        "import sys, pathlib, os\n"
        "from gateway.embedded import Valkey\n"
        "from gateway.embedded_postgres import Postgres\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "for run in range(2):\n"
        "    for server in (Valkey(home / 'valkey'), Postgres(home / 'postgres')):\n"
        "        server.start()\n"
        "        print(pathlib.Path(f'/proc/{server.child.pid}').stat().st_uid)\n"
        "        server.stop()\n"
    )
    with home_of_nobody() as home:
        python, env = python_of_nobody(home)
        command = [python, "-c", program, str(home)]

        done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, **NOBODY)

    assert (done.stdout.split(), done.stderr) == (["65534"] * 4, "")


@pytest.mark.parametrize("server_class", [Valkey, Postgres])
def test_a_taken_port_is_named(tmp_path: Path, server_class: type[Valkey | Postgres]) -> None:
    """The error says which port, before the server stumbles over it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(PortTakenError, match=f"port {port} of 127.0.0.1") as caught:
            server_class(tmp_path / "server", port=port).start()

    assert caught.value.port == port


def test_a_port_is_free_again_at_once() -> None:
    """Connections of a moment ago, which the kernel still remembers, do not take a port."""
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)) as server,
        socket.create_connection(("127.0.0.1", port)),
    ):
        server.accept()[0].close()

    require_free("127.0.0.1", port)


def test_a_valkey_that_cannot_start_says_why(start_redis: StartRedis) -> None:
    """The error quotes the end of the server's log, and no password."""
    server = start_redis()
    server.stop()
    (server.home / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")

    with pytest.raises(ChildError, match="valkey did not start") as caught:
        server.start()

    assert "manifest" in str(caught.value)
    assert password_of(server.home) not in str(caught.value)

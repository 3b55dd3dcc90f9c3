"""`ibex serve`: the gateway, on one port, in as many worker processes as wished."""

import asyncio
import socket
from pathlib import Path
from typing import Annotated

import structlog
import typer

from db.errors import DatabaseError
from db.migrate import pending
from gateway import clients, logs
from gateway.app import Part, create_app
from gateway.cli.workers import Workers, listen
from gateway.settings import Settings, SettingsError, environment
from lua.connection import ClusterRefusedError, RedisAddress, connect, refuse_cluster
from lua.errors import LimiterError

REDIS_CHECK_S = 2.0
BAD_INPUT = 2
FAILED = 1
MIGRATION_LOOKS, MIGRATION_LOOK_EVERY_S = 10, 0.5

log = structlog.get_logger("ibex.gateway")


class StartError(RuntimeError):
    """Serving cannot begin; the message says what to mend."""


def register(app: typer.Typer) -> None:
    """Mount the command on the `ibex` command."""
    app.command("serve")(serve)


def serve(
    only: Annotated[
        Part | None, typer.Option(help="Serve the agents' part alone, or the operators'.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "0.0.0.0",  # noqa: S104 - a server in a container is reached from outside
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port; otherwise PORT, or 8000.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; otherwise WEB_CONCURRENCY, or 1.")
    ] = None,
    inherited_socket: Annotated[int | None, typer.Option(hidden=True)] = None,
    numbers: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve until SIGTERM: then open streams may end, everything is settled, and it exits."""
    try:
        settings = Settings.from_env(environment())
        logs.configure(settings)
        asyncio.run(_check(settings))
    except SettingsError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except (StartError, DatabaseError, ClusterRefusedError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(FAILED) from None
    if inherited_socket is not None:
        _run(settings, only, socket.socket(fileno=inherited_socket), numbers)
        return
    count = workers or settings.web_concurrency
    try:
        listener = listen(host, port or settings.port)
    except OSError as error:
        typer.echo(f"error: cannot serve on {host}:{port or settings.port}: {error}", err=True)
        raise typer.Exit(FAILED) from None
    with listener:
        if count == 1:
            _run(settings, only, listener)
        else:
            options = ["--only", only] if only else []
            raise typer.Exit(Workers(listener, count, environment(), options).run())


def _run(
    settings: Settings, only: Part | None, listener: socket.socket, numbers: Path | None = None
) -> None:
    app = create_app(settings, only, numbers)
    app.config[clients.MOST] = clients.most(clients.raise_descriptor_limit())
    app.run(sock=listener, single_process=True, protocol=clients.BoundedProtocol)


async def _check(settings: Settings) -> None:
    """Refuse to start on what cannot get better by itself; without Redis it starts all the same."""
    for variable, value in (
        ("DATABASE_URL", settings.database_url),
        ("REDIS_URL", settings.redis_url),
    ):
        if not value:
            raise StartError(f"{variable} is not set. `ibex dev` brings its own servers.")
    await _migrated(settings.database_url)
    address = RedisAddress(
        settings.redis_url, settings.redis_ca_file, tls_verify=settings.redis_tls_verify
    )
    client = connect(address, timeout_s=REDIS_CHECK_S)
    try:
        await refuse_cluster(client)
    except LimiterError as error:
        log.warning("Redis does not answer: nothing is limited until it does", reason=str(error))
    finally:
        await client.aclose()


async def _migrated(database_url: str) -> None:
    """Wait a little: a process manager starts the migration at the same moment."""
    for _ in range(MIGRATION_LOOKS):
        names = await pending(database_url)
        if not names:
            return
        await asyncio.sleep(MIGRATION_LOOK_EVERY_S)
    raise StartError(f"the database is not up to date ({', '.join(names)}): run `ibex migrate`")

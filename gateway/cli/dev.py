"""`ibex dev`: everything on this machine, in one terminal, with its data kept in one folder."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer

from db.errors import DatabaseError
from gateway.children import ChildError, try_lock
from gateway.cli.demo_organization import DemoOrganization, provision
from gateway.cli.dev_processes import GRACE_SECONDS, Address, Processes
from gateway.embedded import HOST, PortTakenError, free_port, write_private
from gateway.settings import Settings, SettingsError, environment

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOT_FOR_THE_DEMO = re.compile(
    r"(UPSTREAM|OPENAI|LLMOCK)_.*|.*_PROXY|WEB_CONCURRENCY", re.IGNORECASE
)
BAD_INPUT = 2
FAILED = 1

Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")]


class AlreadyRunningError(RuntimeError):
    """Another `ibex dev` works on the same data."""


def register(app: typer.Typer) -> None:
    """Mount the command on the `ibex` command."""
    app.command("dev")(dev)


def dev(
    host: Annotated[str, typer.Option(help="Address to serve on.")] = HOST,
    port: Port = 8000,
    data: Annotated[Path, typer.Option(help="Folder that keeps everything.")] = Path(".ibex"),
    demo: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--demo", help="Add a mock provider, and agents that use it.")
    ] = False,
    redis_port: Port = 0,
    postgres_port: Port = 0,
) -> None:
    """Run Ibex with its own Valkey and Postgres until Ctrl-C.

    The first start creates an organization with two agents. Addresses and keys are printed, and
    kept in DATA/dev.json.
    """
    data = data.absolute()
    address = Address(host, port or free_port())
    processes = Processes(data, redis_port or None, postgres_port or None)
    try:
        _interrupt_on_signals()
        with _exclusive(data, address), ExitStack() as finally_:
            finally_.callback(processes.stop)
            finally_.callback(_ignore_signals)  # comes first: they would stop the stopping
            _run(processes, data, address, demo=demo)
    except KeyboardInterrupt:
        typer.echo("Stopped.")
    except PortTakenError as error:
        options = {redis_port: "--redis-port", postgres_port: "--postgres-port"}
        _fail(f"{error}; choose another with {options.get(error.port, '--port')}")
    except SettingsError as error:
        _fail(str(error), BAD_INPUT)
    except (AlreadyRunningError, ChildError, DatabaseError, OSError) as error:
        _fail(str(error))


def _run(processes: Processes, data: Path, address: Address, *, demo: bool) -> NoReturn:
    given = environment()
    env = {
        "LOG_FORMAT": "console",
        "SHUTDOWN_GRACE_S": f"{GRACE_SECONDS:g}",
        **given,
        "DATABASE_URL": processes.postgres.url,
        "REDIS_URL": processes.valkey.url,
    }
    Settings.from_env(env)  # before anything is started for settings that the gateway refuses
    processes.start_servers()
    if demo:
        env |= _mock_upstreams(processes.start_mock(_demo_environment(given)).url, given)
    organization = asyncio.run(provision(processes.postgres.url, _known(data)))
    settings = Settings.from_env(env)
    _write_dev_json(data, address, organization, settings)
    processes.start_gateway(address, env)
    if demo:
        processes.start_agents(data / "dev.json", _demo_environment(given))
    _print_welcome(data, address, organization, settings)
    processes.watch()


def _demo_environment(given: Mapping[str, str]) -> dict[str, str]:
    """For mock and agents: no provider's key, and no proxy between processes of this machine."""
    return {name: value for name, value in given.items() if not NOT_FOR_THE_DEMO.fullmatch(name)}


def _mock_upstreams(url: str, given: Mapping[str, str]) -> dict[str, str]:
    """The settings by which the gateway forwards to the mock instead of the providers."""
    upstreams = {
        "UPSTREAM_OPENAI_URL": url,
        "UPSTREAM_OPENAI_KEY": "mock",
        "UPSTREAM_ANTHROPIC_URL": f"{url}/anthropic",
        "UPSTREAM_ANTHROPIC_KEY": "mock",
    }
    if ignored := sorted(upstreams.keys() & given.keys()):
        typer.echo(f"note: --demo uses its mock provider; ignored: {', '.join(ignored)}", err=True)
    return upstreams


@contextmanager
def _exclusive(data: Path, address: Address) -> Iterator[None]:
    """Hold the folder, and say in it who does.

    Raises:
        AlreadyRunningError: names the process that holds it, and where that serves.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data / "dev.lock").open("a+") as lock:
        if not try_lock(lock.fileno()):
            lock.seek(0)
            raise AlreadyRunningError(f"`ibex dev` runs on {data} already: {lock.read().strip()}")
        lock.truncate(0)
        lock.write(f"pid {os.getpid()}, {address.url}\n")
        lock.flush()
        yield


def _known(data: Path) -> DemoOrganization | None:
    """What the last run kept. A file that is lost or damaged is replaced."""
    try:
        return msgspec.json.decode((data / "dev.json").read_bytes(), type=DemoOrganization)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write_dev_json(
    data: Path, address: Address, organization: DemoOrganization, settings: Settings
) -> None:
    content = {
        "base_url": address.url,
        "redis_url": settings.redis_url,
        "database_url": settings.database_url,
        **msgspec.to_builtins(organization),
        "upstreams": {name: upstream.url for name, upstream in settings.upstreams.items()},
    }
    encoded = msgspec.json.format(msgspec.json.encode(content)).decode()
    write_private(data / "dev.json", encoded + "\n")


def _print_welcome(
    data: Path, address: Address, organization: DemoOrganization, settings: Settings
) -> None:
    url = address.url
    first = organization.agents[0]
    lines = [
        "",
        f"Ibex is ready at {url}",
        f"  OpenAI SDK     base_url={url}/openai/v1",
        f"  Anthropic SDK  base_url={url}/anthropic",
        f"  Dashboard      {url}/dashboard, where the admin key signs in",
        *(
            f"  note: /{name} has no key: set UPSTREAM_{name.upper()}_KEY, or run with --demo"
            for name, upstream in settings.upstreams.items()
            if upstream.key is None
        ),
        "",
        *(f"  agent {agent.name:<12}{agent.key}" for agent in organization.agents),
        f"  admin             {organization.admin_key}",
        f"  read only         {organization.read_only_key}",
        f"  platform          {organization.platform_key}",
        f"  organization      {organization.organization_id}",
        "",
        "Try it:",
        f"  curl {url}/openai/v1/chat/completions {_curl_options(first.key)}",
        "",
        f"Addresses and keys are kept in {data / 'dev.json'}. Ctrl-C stops everything.",
    ]
    typer.echo("\n".join(lines))


def _curl_options(key: str) -> str:
    body = '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}'
    return f"-H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{body}'"


def _interrupt_on_signals() -> None:
    """Let every signal that asks us to end do what Ctrl-C does, once, wherever we are."""
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, _disregard)
    # Python takes handlers away before it ends.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def _disregard(_number: int, _frame: object) -> None:
    """Do nothing."""


def _fail(message: str, code: int = FAILED) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)

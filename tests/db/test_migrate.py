import asyncio
import os
import re
import shutil
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from db.errors import DatabaseUnavailable, MigrationFailed
from db.migrate import migrate, pending, rollback

NAMES = sorted(file.name for file in (files("db") / "migrations").iterdir())
SSL_REQUEST = struct.pack("!ii", 8, 80877103)

SCHEMA = """
    SELECT 'column' AS kind, table_name::text AS relation, column_name::text AS name,
           concat_ws(' ', data_type, is_nullable, column_default) AS definition
    FROM information_schema.columns WHERE table_schema = 'ibex_core'
    UNION ALL
    SELECT 'constraint', conrelid::regclass::text, conname::text, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'ibex_core'::regnamespace
    UNION ALL
    SELECT 'index', tablename::text, indexname::text, indexdef
    FROM pg_indexes WHERE schemaname = 'ibex_core'
    ORDER BY 1, 2, 3, 4
"""

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def children() -> set[str]:
    """The ids of the processes that this one has started and not yet ended."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


async def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


def certified(folder: Path) -> ssl.SSLContext:
    certificate, key = folder / "server.crt", folder / "server.key"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate}"
    subprocess.run([*command.split(), "-subj", "/CN=db"], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


@asynccontextmanager
async def tls_in_front_of(url: str, folder: Path) -> AsyncIterator[str]:
    """A relay that speaks Postgres' TLS, and hangs up on whoever does not ask for it."""
    context, target = certified(folder), urlsplit(url)

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(8) != SSL_REQUEST:
            writer.close()
            return
        writer.write(b"S")
        await writer.start_tls(context)
        upstream = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(pump(reader, upstream[1]), pump(upstream[0], writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield url.replace(f":{target.port}/", f":{port}/")


async def test_up_down_up_gives_the_same_schema(database_url: str) -> None:
    """Every migration can be taken back, and applied again to the same effect."""
    assert await migrate(database_url) == NAMES
    first = await query(database_url, SCHEMA)

    undone = [await rollback(database_url) for _ in NAMES]
    rest = {relation for _, relation, _, _ in await query(database_url, SCHEMA)}
    again = await migrate(database_url)

    assert undone == NAMES[::-1]
    assert {name.removeprefix("ibex_core.") for name in rest} == {"schema_migrations"}
    assert again == NAMES
    assert await query(database_url, SCHEMA) == first


async def test_second_run_applies_nothing(database_url: str) -> None:
    """A database that is up to date is left alone."""
    await migrate(database_url)

    assert await migrate(database_url) == []


async def test_runs_at_once_apply_each_migration_once(database_url: str) -> None:
    """Several that start together on an empty database all succeed, and share the work."""
    runs = await asyncio.gather(*(migrate(database_url) for _ in range(4)))

    assert sorted(name for run in runs for name in run) == NAMES


async def test_pending_names_what_migrate_would_apply(database_url: str) -> None:
    """Before the migration everything is pending, after it nothing."""
    before = await pending(database_url)
    await migrate(database_url)

    assert (before, await pending(database_url)) == (NAMES, [])


async def test_rollback_of_an_empty_database_is_nothing(database_url: str) -> None:
    """Where nothing was applied, there is nothing to take back, and that is no error."""
    assert await rollback(database_url) is None


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
@pytest.mark.parametrize("query_part", ["", "?sslmode=prefer", "?sslmode=disable"])
async def test_server_without_tls_is_migrated(
    database_url: str, scheme: str, query_part: str
) -> None:
    """Both spellings of the scheme work, and TLS is not demanded of a server without it."""
    url = f"{scheme}://{database_url.partition('://')[2]}{query_part}"

    assert await migrate(url) == NAMES


async def test_sslmode_require_is_obeyed(database_url: str) -> None:
    """A URL that demands TLS is never migrated in the clear."""
    with pytest.raises(DatabaseUnavailable, match="SSL"):
        await migrate(f"{database_url}?sslmode=require")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate")
@pytest.mark.parametrize("query_part", ["", "?sslmode=prefer", "?sslmode=require"])
async def test_server_that_insists_on_tls_is_migrated(
    database_url: str, tmp_path: Path, query_part: str
) -> None:
    """A server that refuses connections in the clear is migrated over TLS, asked for or not."""
    async with tls_in_front_of(database_url, tmp_path) as url:
        assert await migrate(f"{url}{query_part}") == NAMES


async def test_password_of_odd_characters_is_understood_alike(database_url: str) -> None:
    """A password with every reserved character reaches both drivers unharmed."""
    password = "p %/?#[]@!$&'()*+,;=:^~\"<>{}|\\`é"
    encoded = "".join(f"%{byte:02X}" for byte in password.encode())
    await query(database_url, "DROP ROLE IF EXISTS odd")
    quoted = password.replace("'", "''")
    await query(database_url, f"CREATE ROLE odd SUPERUSER LOGIN PASSWORD '{quoted}'")
    url = re.sub("//[^@]+@", lambda _: f"//odd:{encoded}@", database_url)

    assert await migrate(url) == NAMES


async def test_failed_migration_says_why_without_the_password(database_url: str) -> None:
    """What dbmate reports is passed on, and nothing is recorded as applied."""
    await query(database_url, "CREATE SCHEMA ibex_core")
    await query(database_url, "CREATE TABLE ibex_core.organizations (id int)")
    password = database_url.split(":")[2].partition("@")[0]

    with pytest.raises(MigrationFailed, match=r"organizations.*already exists") as failure:
        await migrate(database_url)

    assert password not in str(failure.value)
    assert await pending(database_url) == NAMES


async def test_wrong_password_is_unavailable_and_not_quoted(database_url: str) -> None:
    """A refused login is reported in a line that does not show the password."""
    url = re.sub("//[^@]+@", "//ibex:hunter2@", database_url)

    with pytest.raises(DatabaseUnavailable) as failure:
        await migrate(url)

    assert "hunter2" not in str(failure.value)
    assert "\n" not in str(failure.value)


async def test_cancelled_migration_leaves_no_process(database_url: str) -> None:
    """Whoever stops waiting for a migration that hangs also ends the dbmate that hangs."""
    await migrate(database_url)
    before = children()
    blocker = await asyncpg.connect(database_url)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE ibex_core.schema_migrations")
        migrating = asyncio.create_task(migrate(database_url))
        async with asyncio.timeout(10):
            while not await blocker.fetchval(WAITING):  # noqa: ASYNC110 - nobody can notify us
                await asyncio.sleep(0.02)
        during = children()

        migrating.cancel()
        await asyncio.gather(migrating, return_exceptions=True)

    await blocker.close()
    assert during > before
    assert children() == before

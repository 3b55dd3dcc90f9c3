"""The agents that send, with their keys: by SQL, because 100,000 of them are some."""

import uuid
from collections.abc import Sequence

import asyncpg
from chat import Sender

from db.api_keys import Role, digest, generate, prefix
from db.migrate import migrate

AGENTS_EACH = 100
TIGHT = 4
"""Agents with a limit of one request a minute."""


async def provision(database_url: str, count: int) -> list[Sender]:
    """`count` agents without an override, in organizations of 100 or less, and the tight ones."""
    await migrate(database_url)
    connection = await asyncpg.connect(database_url)
    try:
        senders = []
        each = min(AGENTS_EACH, max(1, count // 10))
        for begin in range(0, count, each):
            senders += await _organization(connection, min(each, count - begin))
        return senders + await _organization(connection, TIGHT, is_tight=True)
    finally:
        await connection.close()


async def database(url: str, name: str) -> str:
    """The URL of a new database on the same server."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return f"{url.rpartition('/')[0]}/{name}"


async def _organization(
    connection: "asyncpg.Connection", count: int, *, is_tight: bool = False
) -> list[Sender]:
    org_id = uuid.uuid4()
    agents = [(uuid.uuid4(), generate(Role.AGENT)) for _ in range(count)]
    await _insert(connection, "organizations", ("id", "name"), [(org_id, "Benchmark")])
    rows = [(agent_id, org_id, "agent") for agent_id, _ in agents]
    await _insert(connection, "agents", ("id", "org_id", "name"), rows)
    keys = [("agent", org_id, agent_id, digest(key), prefix(key)) for agent_id, key in agents]
    key_columns = ("role", "org_id", "agent_id", "digest", "prefix")
    await _insert(connection, "api_keys", key_columns, keys)
    if is_tight:
        overrides = [(org_id, agent_id, 1) for agent_id, _ in agents]
        columns = ("org_id", "agent_id", "requests_per_minute")
        await _insert(connection, "rate_limit_overrides", columns, overrides)
    return [Sender(key, is_tight) for _, key in agents]


async def _insert(
    connection: "asyncpg.Connection",
    table: str,
    columns: Sequence[str],
    rows: Sequence[tuple[object, ...]],
) -> None:
    await connection.copy_records_to_table(
        table, schema_name="ibex_core", columns=columns, records=rows
    )

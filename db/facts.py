"""What a Postgres server says of itself, for those who set it up."""

from typing import NamedTuple

from db.connection import connection


class ServerFacts(NamedTuple):
    """`version` is the major one; `connections` how many it takes in all."""

    version: int
    is_writable: bool
    connections: int


async def server_facts(database_url: str) -> ServerFacts:
    """Ask it. Raises DatabaseUnavailable."""
    async with connection(database_url) as opened:
        number, read_only, recovering, connections = await opened.fetchrow(
            "SELECT current_setting('server_version_num'),"
            " current_setting('transaction_read_only'),"
            " pg_is_in_recovery(), current_setting('max_connections')"
        )
    is_writable = read_only == "off" and not recovering
    return ServerFacts(int(number) // 10_000, is_writable, int(connections))

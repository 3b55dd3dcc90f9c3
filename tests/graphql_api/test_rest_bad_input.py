"""What cannot be used is refused by name, and leaves nothing behind."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from operators import NOWHERE, world
from rest_server import (
    AGENT_LIMITS,
    CHANGES,
    KEYS,
    ORGANIZATION,
    ORGANIZATION_LIMITS,
    Rest,
    path_to,
    serving,
)
from servers import PostgresServer, RedisServer

from db.migrate import migrate
from db.repository import connect
from graphql_api.rest_call import MAX_BODY_BYTES

HISTORY = "/v1/organizations/{organization_id}/usage"
WHOLE = "must be a whole number from 0 to 9007199254740991; null inherits"
LINE = "must be one line without control characters"
TABLES = ("organizations", "agents", "api_keys", "rate_limit_overrides", "rate_limit_changes")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(postgres_server: PostgresServer) -> AsyncIterator[asyncpg.Pool]:
    """One database for the module: nothing here may change it."""
    with postgres_server.database() as url:
        await migrate(url)
        opened = await connect(url, min_size=1, max_size=4)
        yield opened
        await opened.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(
    pool: asyncpg.Pool, _redis_servers: Callable[[str], RedisServer]
) -> AsyncIterator[Rest]:
    """One server for the module."""
    async with world(pool, _redis_servers("valkey").url) as made, serving(made) as served:
        made.channel.published.clear()
        yield served


async def contents(pool: asyncpg.Pool) -> list[Any]:
    """Every row of every table."""
    return [await pool.fetch(f"SELECT * FROM ibex_core.{table} ORDER BY 1, 2") for table in TABLES]


@pytest.mark.parametrize("path", [ORGANIZATION_LIMITS, AGENT_LIMITS])
@pytest.mark.parametrize(
    "value",
    [
        *("-1", "1.5", "-0.5", "1e17", "1e400", '"10"', '""', "true", "false", "[]", "{}"),
        *(str(2**53), str(2**63), str(2**64), "9" * 5000, '"inherit"', "[" * 5000 + "]" * 5000),
    ],
    ids=lambda value: value[:20],
)
async def test_bad_limit_names_its_field(
    rest: Rest, pool: asyncpg.Pool, path: str, value: str
) -> None:
    """Negative, too large, fractions, strings, booleans: one answer, in one set of words."""
    before = await contents(pool)

    answer = await rest.change(path, f'{{"requests_per_minute": {value}}}'.encode())

    assert (answer.status, answer.body["type"]) == (400, "urn:ibex:problem:bad-input")
    assert answer.body["errors"] == [{"field": "requests_per_minute", "message": WHOLE}]
    assert (await contents(pool), rest.world.channel.published) == (before, [])


async def test_a_good_field_beside_a_bad_one_is_not_written(rest: Rest) -> None:
    """A change is whole or not at all."""
    answer = await rest.change(
        ORGANIZATION_LIMITS, {"requests_per_minute": 5, "tokens_per_month": -1}
    )

    assert (answer.status, answer.fields) == (400, ["tokens_per_month"])
    overrides = (await rest.read(ORGANIZATION_LIMITS))["overrides"]
    assert overrides == {"requests_per_minute": None, "tokens_per_month": None}


@pytest.mark.parametrize("value", [5, None])
async def test_token_ceiling_of_an_agent_is_refused(rest: Rest, value: int | None) -> None:
    """The ceiling is the organization's, and the answer says so."""
    answer = await rest.change(AGENT_LIMITS, {"tokens_per_month": value})

    message = "is set for an organization, not for an agent"
    assert answer.status == 400
    assert answer.body["errors"] == [{"field": "tokens_per_month", "message": message}]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        *((text, "body", "must be a JSON object") for text in (b"null", b"[]", b'"x"', b"7")),
        *(
            (text, "body", "must be JSON in UTF-8")
            for text in (b"", b"{", b"{} x", b"\xff", b"NaN")
        ),
        (b'{"requests_per_minute": "\xff"}', "requests_per_minute", WHOLE),
        (b'{"requests_per_second": 1}', "requests_per_second", "is not known here"),
        (b'{"": 1}', "", "is not known here"),
        (b'{"a`b": 1}', "a`b", "is not known here"),
    ],
)
async def test_bad_body_is_named(rest: Rest, body: bytes, field: str, message: str) -> None:
    """What is no JSON object, or has fields that nobody knows, changes nothing."""
    answer = await rest.change(ORGANIZATION_LIMITS, body)

    assert answer.status == 400
    assert answer.body["errors"] == [{"field": field, "message": message}]
    assert rest.world.channel.published == []


@pytest.mark.parametrize(
    ("path", "body", "field", "message"),
    [
        ("/v1/organizations", {}, "name", "is missing"),
        ("/v1/organizations", {"name": ""}, "name", "must not be empty"),
        ("/v1/organizations", {"name": "a\x00b"}, "name", LINE),
        ("/v1/organizations", {"name": "a" * 201}, "name", "must have at most 200 characters"),
        (f"{ORGANIZATION}/agents", {"name": "a\nb"}, "name", LINE),
        (f"{ORGANIZATION}/agents", {"name": "a", "id": NOWHERE}, "id", "is not known here"),
        ("/v1/keys", {"name": "\x1b[31m"}, "name", LINE),
        ("/v1/keys", {"role": "platform"}, "role", "is not known here"),
        (KEYS, {}, "role", "is missing"),
        (KEYS, {"role": "platform"}, "role", "must be one of agent, admin, read_only"),
        (KEYS, {"role": 1}, "role", "must be one of agent, admin, read_only"),
        (KEYS, {"role": "agent"}, "agent_id", "is missing"),
        (KEYS, {"role": "admin", "agent_id": NOWHERE}, "agent_id", "is not known here"),
        (
            *(KEYS, {"role": "agent", "agent_id": "x"}, "agent_id"),
            "must be a UUID, such as 8db83585-fd25-4a63-89fa-957ac5e7fb23",
        ),
    ],
)
async def test_what_cannot_be_created_is_named(
    rest: Rest, pool: asyncpg.Pool, path: str, body: Any, field: str, message: str
) -> None:
    """Organizations, agents and keys are created of good names, roles and ids only."""
    before = await contents(pool)

    answer = await rest.call("POST", path_to(path, rest.world.ours), body, role="platform")

    assert answer.status == 400
    assert answer.body["errors"] == [{"field": field, "message": message}]
    assert await contents(pool) == before


@pytest.mark.parametrize("value", [7, None, True, ["x"], {"x": 1}])
async def test_name_that_is_no_string_is_named(rest: Rest, value: Any) -> None:
    """Of whatever other type it is."""
    answer = await rest.call("POST", "/v1/organizations", {"name": value}, role="platform")

    assert (answer.status, answer.fields) == (400, ["name"])


@pytest.mark.parametrize("bad", ["x", "%00", "%ff", NOWHERE[:-1], f"{NOWHERE}0", "1", "null"])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/organizations/BAD", "organization_id"),
        ("/v1/organizations/BAD/rate-limits", "organization_id"),
        ("/v1/organizations/{organization_id}/agents/BAD/rate-limits", "agent_id"),
        ("/v1/agents/BAD/rate-limits/usage", "agent_id"),
    ],
)
async def test_bad_id_in_the_path_is_named(rest: Rest, path: str, field: str, bad: str) -> None:
    """What is no UUID is not looked up."""
    answer = await rest.call("GET", path_to(path.replace("BAD", bad), rest.world.ours))

    assert (answer.status, answer.fields) == (400, [field])


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        *(("/v1/organizations", f"first={bad}", "first") for bad in ("0", "501", "-1", "1.5", "")),
        *(("/v1/organizations", f"first={bad}", "first") for bad in ("%D9%A1", "1e2", "9" * 30)),
        ("/v1/organizations", "first=1&first=2", "first"),
        *(("/v1/organizations", f"after={bad}", "after") for bad in ("", "x", "%00", "%ff", "7")),
        *((CHANGES, f"after={bad}", "after") for bad in ("", "x", "0", "-1", "9" * 30, NOWHERE)),
        (KEYS, "frist=10", "frist"),
        (ORGANIZATION_LIMITS, "first=1", "first"),
        (HISTORY, "by=week", "by"),
        (HISTORY, "from=2026-13-01", "from"),
        (HISTORY, "from=", "from"),
        (HISTORY, "to=tomorrow&by=hour", "to"),
        (HISTORY, "from=2026-12-01&from=2026-12-02", "from"),
    ],
)
async def test_bad_query_is_named(rest: Rest, path: str, query: str, field: str) -> None:
    """Sizes and cursors that cannot be used, and parameters that nobody knows."""
    answer = await rest.call("GET", path_to(f"{path}?{query}", rest.world.ours))

    assert (answer.status, answer.fields) == (400, [field])


@pytest.mark.parametrize(
    ("headers", "accept"),
    [
        ({"Content-Type": "text/plain"}, "accept-patch"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "accept-patch"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, "accept-patch"),
        ({"Content-Type": ""}, "accept-patch"),
        ({"Content-Encoding": "gzip"}, "accept-encoding"),
    ],
)
async def test_other_media_types_are_refused(
    rest: Rest, headers: dict[str, str], accept: str
) -> None:
    """A form on another site cannot make a browser change anything; the answer names what can."""
    answer = await rest.change(ORGANIZATION_LIMITS, {"requests_per_minute": 1}, headers=headers)

    assert (answer.status, accept in answer.headers) == (415, True)
    assert rest.world.channel.published == []


async def test_body_is_bounded(rest: Rest) -> None:
    """More than any change needs is not even kept, and the next request is answered."""
    body = {"name": " " * MAX_BODY_BYTES}

    answer = await rest.call("POST", "/v1/organizations", body, role="platform")

    assert (answer.status, answer.body["type"]) == (413, "urn:ibex:problem:too-large")
    assert (await rest.call("GET", "/v1/organizations")).status == 200


async def test_head_is_bounded(rest: Rest) -> None:
    """A target that is longer than any cursor is a problem too."""
    answer = await rest.call("GET", f"/v1/organizations?after={'x' * 20_000}")

    assert (answer.status, answer.body["type"]) == (431, "urn:ibex:problem:head-too-large")

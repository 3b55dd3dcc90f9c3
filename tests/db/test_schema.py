"""The rules that the schema keeps by itself, whoever writes to it."""

from uuid import UUID

import asyncpg
import pytest

from db.limits import MAX_LIMIT

OVERRIDE = """
    INSERT INTO ibex_core.rate_limit_overrides
        (org_id, agent_id, requests_per_minute, tokens_per_month) VALUES ($1, $2, $3, $4)
"""
KEY = """
    INSERT INTO ibex_core.api_keys (role, org_id, agent_id, digest, prefix)
    VALUES ($1, $2, $3, $4, 'ibex_agt_Ab3d')
"""
Ids = dict[str, UUID]


@pytest.fixture
async def ids(pool: asyncpg.Pool) -> Ids:
    """An organization with an agent, and an agent of another organization."""
    found: Ids = {}
    for org, agent in (("org", "agent"), ("other_org", "foreign_agent")):
        found[org] = await pool.fetchval(
            "INSERT INTO ibex_core.organizations (name) VALUES ('x') RETURNING id"
        )
        found[agent] = await pool.fetchval(
            "INSERT INTO ibex_core.agents (org_id, name) VALUES ($1, 'x') RETURNING id", found[org]
        )
    return found


@pytest.mark.parametrize("agent", [None, "agent"])
async def test_second_override_of_the_same_target_is_refused(
    pool: asyncpg.Pool, ids: Ids, agent: str | None
) -> None:
    """One row for an organization, whose agent is NULL, and one for each agent."""
    target = (ids["org"], agent and ids[agent])
    await pool.execute(OVERRIDE, *target, 1, None)

    with pytest.raises(asyncpg.UniqueViolationError):
        await pool.execute(OVERRIDE, *target, 2, None)


async def test_second_override_is_refused_while_the_first_is_uncommitted(
    pool: asyncpg.Pool, ids: Ids
) -> None:
    """Two clients at once cannot both add the organization's row."""
    async with pool.acquire() as first, pool.acquire() as second:
        transaction = first.transaction()
        await transaction.start()
        await first.execute(OVERRIDE, ids["org"], None, 1, None)
        await second.execute("SET lock_timeout = '200ms'")

        with pytest.raises(asyncpg.LockNotAvailableError):
            await second.execute(OVERRIDE, ids["org"], None, 2, None)

        await transaction.commit()
        with pytest.raises(asyncpg.UniqueViolationError):
            await second.execute(OVERRIDE, ids["org"], None, 2, None)


@pytest.mark.parametrize("limits", [(0, 0), (MAX_LIMIT, MAX_LIMIT), (None, None)])
async def test_limits_in_range_are_kept(
    pool: asyncpg.Pool, ids: Ids, limits: tuple[int | None, int | None]
) -> None:
    """Zero, the largest limit and NULL are all limits."""
    await pool.execute(OVERRIDE, ids["org"], None, *limits)

    row = await pool.fetchrow("SELECT * FROM ibex_core.rate_limit_overrides")
    assert (row["requests_per_minute"], row["tokens_per_month"]) == limits


@pytest.mark.parametrize(
    ("agent", "limits", "constraint"),
    [
        (None, (-1, None), "rate_limit_overrides_requests_range"),
        (None, (MAX_LIMIT + 1, None), "rate_limit_overrides_requests_range"),
        (None, (None, -1), "rate_limit_overrides_tokens_range"),
        (None, (None, MAX_LIMIT + 1), "rate_limit_overrides_tokens_range"),
        ("agent", (None, 1), "rate_limit_overrides_tokens_are_the_organizations"),
        ("foreign_agent", (1, None), "rate_limit_overrides_agent"),
    ],
)
async def test_override_out_of_bounds_is_refused(
    pool: asyncpg.Pool,
    ids: Ids,
    agent: str | None,
    limits: tuple[int | None, int | None],
    constraint: str,
) -> None:
    """No negative limit, none that cannot be counted, no agent's ceiling, no foreign agent."""
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as error:
        await pool.execute(OVERRIDE, ids["org"], agent and ids[agent], *limits)

    assert error.value.constraint_name == constraint


@pytest.mark.parametrize(
    ("role", "org", "agent", "valid"),
    [
        ("agent", "org", "agent", True),
        ("agent", "org", None, False),
        ("agent", None, None, False),
        ("agent", None, "agent", False),
        ("agent", "org", "foreign_agent", False),
        ("admin", "org", None, True),
        ("admin", "org", "agent", False),
        ("admin", None, None, False),
        ("read_only", "org", None, True),
        ("read_only", None, None, False),
        ("platform", None, None, True),
        ("platform", "org", None, False),
        ("owner", "org", None, False),
    ],
)
async def test_key_has_exactly_the_scope_of_its_role(
    pool: asyncpg.Pool, ids: Ids, role: str, org: str | None, agent: str | None, valid: bool
) -> None:
    """An agent's key names its agent, an operator's its organization, a platform's neither."""
    row = (role, org and ids[org], agent and ids[agent], b"d" * 32)
    try:
        await pool.execute(KEY, *row)
    except asyncpg.IntegrityConstraintViolationError:
        assert not valid
    else:
        assert valid


@pytest.mark.parametrize("digest", [b"", b"d" * 31, b"d" * 33])
async def test_digest_has_32_bytes(pool: asyncpg.Pool, digest: bytes) -> None:
    """Only a SHA-256 fits: a key itself can never be stored by mistake."""
    with pytest.raises(asyncpg.CheckViolationError):
        await pool.execute(KEY, "platform", None, None, digest)


async def test_digest_is_unique(pool: asyncpg.Pool) -> None:
    """One key has one owner."""
    await pool.execute(KEY, "platform", None, None, b"d" * 32)

    with pytest.raises(asyncpg.UniqueViolationError):
        await pool.execute(KEY, "platform", None, None, b"d" * 32)


@pytest.mark.parametrize(("name", "valid"), [("", False), ("é" * 200, True), ("é" * 201, False)])
async def test_names_have_1_to_200_characters(pool: asyncpg.Pool, name: str, valid: bool) -> None:
    """Names of organizations are neither empty nor endless; characters count, not bytes."""
    try:
        await pool.execute("INSERT INTO ibex_core.organizations (name) VALUES ($1)", name)
    except asyncpg.CheckViolationError:
        assert not valid
    else:
        assert valid

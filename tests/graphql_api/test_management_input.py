"""What callers may send is decided before anything is looked up, written or published."""

from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg
import pytest
from operators import World, update

from db.api_keys import Role
from db.limits import MAX_LIMIT, OverrideChange
from graphql_api.errors import BadInput

ID = "8db83585-fd25-4a63-89fa-957ac5e7fb23"

BadCall = Callable[[World], Coroutine[Any, Any, Any]]
BAD_CALLS: list[tuple[str, BadCall]] = [
    ("organization_id", lambda w: w.management.rate_limits(w.platform, "nope")),
    ("agent_id", lambda w: w.management.rate_limits(w.platform, w.ours.id, "nope")),
    ("agent_id", lambda w: w.management.rate_limits_of_agents(w.platform, w.ours.id, [ID, ""])),
    ("organization_id", lambda w: w.management.usage(w.platform, organization_id="")),
    ("agent_id", lambda w: w.management.usage(w.platform, agent_id="\x00")),
    (
        "organization_id",
        lambda w: w.management.usage(
            w.platform, organization_id=w.ours.id, agent_id=w.ours.agent_id
        ),
    ),
    ("organization_id", lambda w: w.management.usage_history(w.platform)),
    (
        "organization_id",
        lambda w: w.management.usage_history(
            w.platform, organization_id=w.ours.id, agent_id=w.ours.agent_id
        ),
    ),
    ("organization_id", lambda w: w.management.organization(w.platform, "x")),
    ("agent_id", lambda w: w.management.agent(w.platform, "x")),
    ("name", lambda w: w.management.create_organization(w.platform, "")),
    ("name", lambda w: w.management.create_agent(w.ours.admin, w.ours.id, "a\x00b")),
    ("key_id", lambda w: w.management.revoke_key(w.platform, "nope")),
    ("expected_version", lambda w: update(w, None, OverrideChange(1), 0)),
    ("expected_version", lambda w: update(w, None, OverrideChange(1), True)),
    ("tokens_per_month", lambda w: update(w, w.ours.agent_id, OverrideChange(1, 1))),
    ("tokens_per_month", lambda w: update(w, None, OverrideChange(1, MAX_LIMIT + 1))),
    ("requests_per_minute", lambda w: update(w, None, OverrideChange(-1, 1))),
]
BAD_KEYS: list[tuple[str, dict[str, Any]]] = [
    ("role", {"role": "owner"}),
    ("role", {"role": None}),
    ("organization_id", {"role": Role.ADMIN}),
    ("agent_id", {"role": Role.AGENT}),
    ("agent_id", {"role": Role.AGENT, "organization_id": ID}),
    ("agent_id", {"role": Role.READ_ONLY, "organization_id": ID, "agent_id": ID}),
    ("organization_id", {"role": Role.PLATFORM, "organization_id": ID}),
    ("agent_id", {"role": Role.PLATFORM, "agent_id": ID}),
]


async def is_refused(world: World, pool: asyncpg.Pool, call: BadCall) -> str:
    """Which field is to blame. Nothing was written or published."""
    before = await pool.fetch("SELECT id, version FROM ibex_core.organizations ORDER BY id")
    with pytest.raises(BadInput) as error:
        await call(world)
    assert await pool.fetch("SELECT id, version FROM ibex_core.organizations ORDER BY id") == before
    assert world.channel.published == []
    return error.value.field


@pytest.mark.parametrize(("field", "call"), BAD_CALLS)
async def test_bad_input_names_the_field_and_changes_nothing(
    operated: World, pool: asyncpg.Pool, field: str, call: BadCall
) -> None:
    """Each use case refuses what it cannot use, by the name that its callers know."""
    assert await is_refused(operated, pool, call) == field


@pytest.mark.parametrize(("field", "given"), BAD_KEYS)
async def test_a_key_has_exactly_the_ids_of_its_role(
    operated: World, pool: asyncpg.Pool, field: str, given: dict[str, Any]
) -> None:
    """An agent's its agent, an operator's its organization, the platform's none."""
    ids: dict[str, Any] = {"organization_id": None, "agent_id": None, **given}

    assert field == await is_refused(
        operated, pool, lambda w: w.management.issue_key(w.platform, **ids)
    )

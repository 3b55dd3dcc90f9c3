"""How much one GraphQL request may ask for, and values that cannot be used."""

import time
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import pytest
from graphql_server import Caller, graphql_server
from operators import World

from db.api_keys import Role
from graphql_api import context
from graphql_api.auth import Authenticator
from graphql_api.query_limits import MAX_ALIASES, MAX_DEPTH, MAX_TOKENS

UPDATE = "mutation($input: UpdateRateLimitsInput!) { updateRateLimits(input: $input) { version } }"


@pytest.fixture
async def admin(operated: World) -> AsyncIterator[Caller]:
    """An administrator of our organization."""
    async with graphql_server(operated.management, Authenticator(operated.repository)) as server:
        yield server.caller(operated.ours.secrets[Role.ADMIN])


def nested(depth: int) -> str:
    """A query of that many fields within one another."""
    types = depth - 2
    return '{ __type(name: "X") { ' + "ofType { " * types + "name" + " }" * types + " } }"


async def test_depth_is_bounded(admin: Caller) -> None:
    """The deepest query that is taken is answered, one deeper is refused."""
    deepest = await admin.ask(nested(MAX_DEPTH))
    deeper = await admin.ask(nested(MAX_DEPTH + 1))

    assert deepest.data == {"__type": None}
    assert deeper.code == "BAD_USER_INPUT"
    assert f"more than {MAX_DEPTH} fields deep" in deeper.error["message"]


async def test_depth_counts_through_fragments(admin: Caller) -> None:
    """Fragments, named and inline, do not hide how deep a query is."""
    half = MAX_DEPTH // 2
    query = (
        '{ __type(name: "X") { ... { ...F } } } fragment F on __Type { '
        + "ofType { " * half
        + "...G"
        + " }" * half
        + " } fragment G on __Type { "
        + "ofType { " * half
        + "name"
        + " }" * half
        + " }"
    )

    assert f"more than {MAX_DEPTH} fields deep" in (await admin.ask(query)).error["message"]


async def test_aliases_are_bounded(admin: Caller) -> None:
    """Asking for the same field under many names is refused beyond the bound."""
    most = " ".join(f"a{number}: viewer {{ role }}" for number in range(MAX_ALIASES))
    taken = await admin.ask(f"{{ {most} }}")
    refused = await admin.ask(f"{{ {most} one: viewer {{ more: role }} }}")

    assert len(taken.data) == MAX_ALIASES
    assert f"more than {MAX_ALIASES} aliases" in refused.error["message"]


async def test_tokens_are_bounded(admin: Caller) -> None:
    """A document is read up to its bound of tokens."""
    refused = await admin.ask("{ viewer { " + "role " * MAX_TOKENS + "} }")

    assert refused.code == "BAD_USER_INPUT"
    assert str(MAX_TOKENS) in refused.error["message"]


async def test_fragments_that_multiply_are_measured_at_once(admin: Caller) -> None:
    """Fragments that spread the next one twice stand for 2^60 aliases: refused without counting."""
    chain = " ".join(
        f"fragment F{number} on Query {{ ...F{number + 1} ...F{number + 1} }}"
        for number in range(60)
    )
    started = time.perf_counter()
    answer = await admin.ask(
        f"{{ ...F0 }} {chain} fragment F60 on Query {{ a: viewer {{ role }} }}"
    )

    assert f"more than {MAX_ALIASES} aliases" in answer.error["message"]
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    "query",
    [
        "{ ...Missing }",
        "{ ...F } fragment F on Query { ...F }",
        "{ ...F } fragment F on Query { ...G } fragment G on Query { ...F }",
        "{ " + "a { " * 300 + "b" + " }" * 300 + " }",
        "{ viewer { nonsense } }",
        "{ viewer }",
        "nonsense",
        '{ viewer(id: "\\ud800") { role } }',
        "fragment F on Query { viewer { role } }",
    ],
)
async def test_documents_that_make_no_sense_are_the_callers_fault(
    admin: Caller, query: str
) -> None:
    """Each is BAD_USER_INPUT, with 400 for who takes GraphQL's own media type."""
    answer = await admin.send(
        json={"query": query}, headers={"Accept": "application/graphql-response+json"}
    )

    assert answer.status_code == 400
    for error in answer.json()["errors"]:
        assert error["extensions"]["code"] == "BAD_USER_INPUT"


async def test_nested_lists_are_bounded_together(admin: Caller, operated: World) -> None:
    """An answer lists so many items and no more, however the lists are nested."""
    query = "{ organizations { nodes { agents { nodes { id } } keys { nodes { id } } } } }"
    platform = admin.with_key(operated.platform_key)
    with patch.object(context, "MAX_LISTED", 10):
        taken = await platform.ask(query)
    with patch.object(context, "MAX_LISTED", 9):
        refused = await platform.ask(query)

    listed = taken.data["organizations"]["nodes"]
    assert 10 == len(listed) + sum(  # noqa: SIM300 - the sum is what is counted
        len(node["agents"]["nodes"]) + len(node["keys"]["nodes"]) for node in listed
    )
    assert refused.code == "BAD_USER_INPUT"
    assert refused.error["extensions"]["field"] == "first"


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (-1, "-1"),
        (1.5, "1.5"),
        ("10", '"10"'),
        ("x", '"x"'),
        (True, "true"),
        ([1], "[1, 2]"),
        ({}, "{}"),
        (2**53, str(2**53)),
        (2**63, str(2**63)),
        (2**70, str(2**70)),
        (-(2**63) - 1, str(-(2**63) - 1)),
    ],
)
@pytest.mark.parametrize("field", ["requestsPerMinute", "tokensPerMonth", "expectedVersion"])
async def test_a_limit_that_cannot_be_used_is_refused_and_named(
    admin: Caller, operated: World, field: str, value: Any, literal: str
) -> None:
    """As a variable and as a literal: the field is named, and nothing is changed."""
    ours = operated.ours.id
    before = await operated.management.rate_limits(operated.ours.admin, ours)
    named: dict[str, Any] = {"organizationId": ours, "requestsPerMinute": 5, field: value}
    as_variable = await admin.ask(UPDATE, {"input": named})
    other = "" if field == "requestsPerMinute" else "requestsPerMinute: 5, "
    as_literal = await admin.ask(
        f'mutation {{ updateRateLimits(input: {{organizationId: "{ours}", {other}'
        f"{field}: {literal}}}) {{ version }} }}"
    )

    for answer in (as_variable, as_literal):
        if answer.code != "CONFLICT":  # a whole number may be a version, only not this one
            assert answer.code == "BAD_USER_INPUT"
            assert answer.error["extensions"]["field"] == field
    after = await operated.management.rate_limits(operated.ours.admin, ours)
    assert (after.version, after.overrides) == (before.version, before.overrides)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ('{ organization(id: "x") { id } }', "organizationId"),
        ('{ organization(id: "") { id } }', "organizationId"),
        ('{ rateLimitUsage(agentId: "8db83585") { points { requests } } }', "agentId"),
        ('mutation { revokeKey(id: "x") { id } }', "keyId"),
        ("{ organizations(first: 0) { nodes { id } } }", "first"),
        ("{ organizations(first: -1) { nodes { id } } }", "first"),
        ("{ organizations(first: 501) { nodes { id } } }", "first"),
        ("{ organizations(first: 2147483648) { nodes { id } } }", "first"),
        ('{ organizations(first: "1") { nodes { id } } }', "first"),
        ('{ organizations(after: "x") { nodes { id } } }', "after"),
        ("mutation { issueKey(role: ADMIN) { secret } }", "organizationId"),
        ("mutation { issueKey(role: AGENT) { secret } }", "agentId"),
        ('mutation { createAgent(organizationId: "%s", name: "") { id } }', "name"),
        ('mutation { createAgent(organizationId: "%s", name: "a\\u0000b") { id } }', "name"),
        ('mutation { createAgent(organizationId: "%s", name: 1) { id } }', "name"),
    ],
)
async def test_an_argument_that_cannot_be_used_is_named(
    admin: Caller, operated: World, query: str, field: str
) -> None:
    """BAD_USER_INPUT, with the argument in `extensions.field`."""
    answer = await admin.ask(query.replace("%s", operated.ours.id))

    assert answer.code == "BAD_USER_INPUT", answer.error
    assert answer.error["extensions"]["field"] == field


async def test_the_token_ceiling_is_not_an_agents(admin: Caller, operated: World) -> None:
    """tokensPerMonth with an agentId is refused, and so is null for it."""
    ours = operated.ours
    for value in (5, None):
        answer = await admin.ask(
            UPDATE,
            {
                "input": {
                    "organizationId": ours.id,
                    "agentId": ours.agent_id,
                    "tokensPerMonth": value,
                }
            },
        )

        assert answer.code == "BAD_USER_INPUT"
        assert answer.error["extensions"]["field"] == "tokensPerMonth"


async def test_fields_that_an_input_does_not_have_are_named(admin: Caller, operated: World) -> None:
    """A misspelled limit is not ignored."""
    answer = await admin.ask(UPDATE, {"input": {"organizationId": operated.ours.id, "rpm": 5}})

    assert answer.code == "BAD_USER_INPUT"
    assert "'rpm'" in answer.error["message"]


async def test_messages_do_not_grow_with_what_was_sent(admin: Caller) -> None:
    """A refused value is quoted in part."""
    answer = await admin.ask(f"{{ organizations(first: {'9' * 5_000}) {{ nodes {{ id }} }} }}")

    assert answer.code == "BAD_USER_INPUT"
    assert len(answer.error["message"]) <= 500

"""Changes of limits and keys reach a running gateway within a second."""

import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest
from changing import AT_ONCE_S, felt, limit_of
from gateway_stack import Agent, Stack
from raw_calls import provision
from servers import eventually
from traffic import chat

pytestmark = pytest.mark.usefixtures("raw")


def ibex(stack: Stack, *args: str) -> Any:
    """The command of an operator, with JSON as its output."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *args, "--json"],
        env={
            "PATH": os.environ["PATH"],
            "DATABASE_URL": stack.database_url,
            "REDIS_URL": stack.redis.url,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_limit_is_obeyed_within_a_second(stack: Stack) -> None:
    """Lowered, lifted, and for one agent only; measured from before the change is made."""
    tenant = provision(stack, org_rpm=1000, agents=2)
    first, second = tenant.agents
    changes: list[tuple[Agent | None, int | None, int]] = [
        (None, 0, 429),
        (None, 1000, 200),
        (first, 0, 429),
        (first, None, 200),
    ]
    for agent, rpm, status in changes:
        before = time.monotonic()
        stack.tenants.limit(tenant, agent, rpm=rpm)
        assert felt(stack, first, status, AT_ONCE_S)
        assert time.monotonic() - before < AT_ONCE_S
        assert chat(stack, second).status == (429 if rpm == 0 and agent is None else 200)


def test_a_limit_that_is_set_on_the_command_line_is_obeyed_within_a_second(stack: Stack) -> None:
    """From the command's end, for requests and for tokens."""
    tenant = provision(stack, org_rpm=1000, tokens=100_000)
    for option, value, status in (
        ("--rpm", "0", 429),
        ("--rpm", "inherit", 200),
        ("--tokens", "0", 429),
        ("--tokens", "inherit", 200),
    ):
        done = ibex(stack, "limits", "set", "--org", tenant.id, option, value)
        assert done["published"]
        assert felt(stack, tenant.agent, status, AT_ONCE_S)


def test_a_key_is_known_and_forgotten_within_a_second(stack: Stack) -> None:
    """Several keys of an agent live side by side; revoking one leaves the other."""
    tenant = provision(stack)
    issued = ibex(stack, "key", "issue", "--agent", tenant.agent.id)
    second = Agent(tenant.agent.id, issued["key"])
    assert felt(stack, second, 200, AT_ONCE_S)

    ibex(stack, "key", "revoke", issued["id"])

    assert felt(stack, second, 401, AT_ONCE_S)
    assert chat(stack, tenant.agent).status == 200


def test_requests_under_way_are_not_touched_by_a_change(stack: Stack) -> None:
    """The window is the same before and after: used requests count against the new limit."""
    tenant = provision(stack, org_rpm=1000)
    for _ in range(5):
        assert chat(stack, tenant.agent).status == 200

    stack.tenants.limit(tenant, rpm=6)
    assert eventually(lambda: limit_of(stack, tenant.agent) == 6)

    assert [chat(stack, tenant.agent).status for _ in range(2)] == [200, 429]

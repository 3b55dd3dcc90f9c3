"""Changes as they are made, and as a gateway comes to obey them."""

import asyncpg
from gateway_stack import Agent, Stack, Tenant
from servers import eventually, run_apart
from traffic import chat

AT_ONCE_S = 1.0
"""Within this time a gateway obeys what was published."""


def felt(stack: Stack, agent: Agent, status: int, seconds: float) -> bool:
    """Whether the agent's requests come to be answered so in time."""
    return eventually(lambda: chat(stack, agent).status == status, seconds)


def limit_of(stack: Stack, agent: Agent) -> int | None:
    """The organization's limit as the gateway knows it."""
    limit: int | None = stack.gateway.get("/limits", agent.bearer)[1]["org"]["limit"]
    return limit


def hears(stack: Stack) -> bool:
    """Whether the gateway's subscription stands."""
    return bool(stack.gateway.readyz()["config"]["changes_heard"])


def write_limit(stack: Stack, tenant: Tenant, rpm: int) -> None:
    """Change the organization's limit behind everybody's back: nothing is published."""

    async def write() -> None:
        connection = await asyncpg.connect(stack.database_url)
        try:
            async with connection.transaction():
                await connection.execute(
                    "UPDATE ibex_core.rate_limit_overrides SET requests_per_minute = $2"
                    " WHERE org_id = $1 AND agent_id IS NULL",
                    tenant.id,
                    rpm,
                )
                await connection.execute(
                    "UPDATE ibex_core.organizations SET version = version + 1 WHERE id = $1",
                    tenant.id,
                )
        finally:
            await connection.close()

    run_apart(write)

"""An agent's page: its use against its limit, the limits that apply to it, and its keys."""

from collections.abc import Callable

from sanic import HTTPResponse

from dashboard import composing, example, forms, limits_change, organization, rendering
from dashboard.composing import agent_url, organization_url
from dashboard.contexts import Agent, Crumb, Form, Frame, Meter, Rule
from dashboard.memory import Recalled, read
from dashboard.page import Visit, live
from dashboard.patience import patiently
from dashboard.readings import AgentReading, AgentSource
from graphql_api import access
from graphql_api.model import RateLimits

FRAGMENTS = {
    "status": "_status",
    "cards": "_agent_cards",
    "requests-words": "_requests_words",
    "requests-table": "_requests_table",
    "tokens-words": "_tokens_words",
    "tokens-table": "_tokens_table",
}


async def show(visit: Visit, agent_id: str) -> HTTPResponse:
    """The page."""
    return rendering.page("agent", await _context(visit, agent_id))


async def show_live(visit: Visit, agent_id: str) -> HTTPResponse:
    """Its newest numbers."""
    context = await _context(visit, agent_id)
    return live(context, FRAGMENTS, (context.requests_chart, context.tokens_chart))


async def change_limits(visit: Visit, agent_id: str) -> HTTPResponse:
    """Its form was sent."""
    agent = await patiently(visit.management.agent(visit.viewer, agent_id))

    async def again(refused: Callable[[Form], Form], status: int) -> HTTPResponse:
        return rendering.page("agent", await _context(visit, agent.id, refused), status)

    target = limits_change.Target(
        agent.organization_id, agent.id, agent_url(agent.id), (forms.REQUESTS,)
    )
    return await limits_change.change(visit, target, again)


async def _context(
    visit: Visit, agent_id: str, form: Callable[[Form], Form] | None = None
) -> Agent:
    """Read and compose. `form` makes of the form what is to be shown, after it was refused."""
    source = AgentSource(visit.management, visit.viewer, agent_id)
    recalled: Recalled[AgentReading] = await read(visit.memory, source)
    reading, limits = recalled.reading, recalled.reading.limits
    agent, of_it = reading.agent, reading.organization
    limit = limits.agent_requests_per_minute
    return Agent(
        frame=Frame(
            agent.name,
            viewer=visit.viewer,
            crumbs=(
                *organization.crumbs(visit.viewer),
                Crumb(of_it.name, organization_url(of_it.id)),
            ),
            live=f"{agent_url(agent.id)}/live",
            notice=limits_change.notice(visit, limits),
        ),
        outage=composing.outage(recalled),
        as_of=reading.as_of,
        requests=Meter(limits.current_minute_requests, limit),
        hour=composing.hour(reading.usage),
        example=example.of(visit.request) if composing.is_idle(reading.usage) else None,
        requests_chart=composing.requests_chart(reading.usage, limit, agent.name),
        tokens_chart=composing.tokens_chart(reading.usage, agent.name),
        rules=_rules(limits),
        keys=reading.keys,
        agent_id=agent.id,
        form=_form(visit, reading, form),
        history_url=f"{agent_url(agent.id)}/history",
    )


def _rules(limits: RateLimits) -> tuple[Rule, ...]:
    inherits = limits.overrides.requests_per_minute is None
    rules = [
        Rule(
            "Requests per minute, this agent",
            limits.agent_requests_per_minute,
            "inherited: the platform's default for agents" if inherits else "set here",
        ),
        Rule(
            "Requests per minute, organization",
            limits.org_requests_per_minute,
            "at the organization",
        ),
        Rule("Tokens per month, organization", limits.org_tokens_per_month, "at the organization"),
    ]
    if limits.global_is_visible:
        rules.append(
            Rule(
                "Requests per minute, platform",
                limits.global_requests_per_minute,
                "by the platform",
            )
        )
    return tuple(rules)


def _form(
    visit: Visit, reading: AgentReading, refused: Callable[[Form], Form] | None
) -> Form | None:
    if not access.may_write(visit.viewer):
        return None
    form = forms.of_agent(reading.limits, f"{agent_url(reading.agent.id)}/limits")
    return refused(form) if refused else form

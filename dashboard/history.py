"""Usage beyond the last hour: 31 days or 48 hours of an organization or agent."""

from collections.abc import Mapping

from sanic import HTTPResponse

from dashboard import history_charts, organization, rendering
from dashboard.composing import agent_url, organization_url
from dashboard.contexts import Crumb, Frame
from dashboard.page import Visit
from dashboard.patience import patiently
from dashboard.standing_contexts import History
from graphql_api.model import UsageHistory

_NAMES: Mapping[str, str] = {"day": "Days", "hour": "Hours"}


async def show_organization(visit: Visit, organization_id: str) -> HTTPResponse:
    """The page of an organization. `by` in the query is hour or day."""
    of_it = await patiently(visit.management.organization(visit.viewer, organization_id))
    told = await patiently(
        visit.management.usage_history(
            visit.viewer, organization_id=of_it.id, by=visit.request.args.get("by")
        )
    )
    url = organization_url(of_it.id)
    return _page(visit, of_it.name, url, (Crumb(of_it.name, url),), told)


async def show_agent(visit: Visit, agent_id: str) -> HTTPResponse:
    """The page of an agent."""
    agent = await patiently(visit.management.agent(visit.viewer, agent_id))
    of_it = await patiently(visit.management.organization(visit.viewer, agent.organization_id))
    told = await patiently(
        visit.management.usage_history(
            visit.viewer, agent_id=agent.id, by=visit.request.args.get("by")
        )
    )
    url = agent_url(agent.id)
    way = (Crumb(of_it.name, organization_url(of_it.id)), Crumb(agent.name, url))
    return _page(visit, agent.name, url, way, told)


def _page(
    visit: Visit, name: str, url: str, way: tuple[Crumb, ...], told: UsageHistory
) -> HTTPResponse:
    context = History(
        frame=Frame(
            "History", viewer=visit.viewer, crumbs=(*organization.crumbs(visit.viewer), *way)
        ),
        name=name,
        by=told.by,
        choices=tuple((each, text, f"{url}/history?by={each}") for each, text in _NAMES.items()),
        spans=told.spans,
        requests=history_charts.requests_figure(told, name=name),
        tokens=history_charts.tokens_figure(told, name=name),
    )
    return rendering.page("history", context)

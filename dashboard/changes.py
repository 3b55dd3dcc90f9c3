"""The audit: who changed which limits of an organization and its agents, the newest first."""

from urllib.parse import urlencode

from sanic import HTTPResponse

from dashboard import organization, rendering
from dashboard.composing import agent_url, organization_url
from dashboard.contexts import Crumb, Frame
from dashboard.formatting import author
from dashboard.forms import REQUESTS, TOKENS
from dashboard.page import Visit
from dashboard.patience import patiently
from dashboard.standing_contexts import Change, Changes
from graphql_api.model import OrganizationView, RateLimitChangeView

_LIMITS = {REQUESTS: "requests per minute", TOKENS: "tokens per month"}


async def show(visit: Visit, organization_id: str) -> HTTPResponse:
    """The page. `after` in the query is the cursor of an older part."""
    of_it = await patiently(visit.management.organization(visit.viewer, organization_id))
    after = visit.request.args.get("after")
    found = await patiently(visit.management.changes(visit.viewer, of_it.id, after=after))
    url = organization_url(of_it.id)
    context = Changes(
        frame=Frame(
            "Changes",
            viewer=visit.viewer,
            crumbs=(*organization.crumbs(visit.viewer), Crumb(of_it.name, url)),
        ),
        name=of_it.name,
        changes=tuple(_change(change, of_it) for change in found.items),
        newest=f"{url}/changes" if after else None,
        older=f"{url}/changes?{urlencode({'after': found.next})}" if found.next else None,
    )
    return rendering.page("changes", context)


def _change(change: RateLimitChangeView, of_it: OrganizationView) -> Change:
    agent_id = change.agent_id
    return Change(
        change=change,
        who=author(change.by),
        name=of_it.name if agent_id is None else change.agent_name or agent_id,
        url=organization_url(of_it.id) if agent_id is None else agent_url(agent_id),
        field=_LIMITS.get(change.field, change.field),
    )

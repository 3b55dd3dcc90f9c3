"""An organization's page: its use against its limits, its agents by pressure, its limits."""

from collections.abc import Callable
from datetime import UTC

from sanic import HTTPResponse

from dashboard import composing, example, forms, limits_change, rendering
from dashboard.composing import ROOT, organization_url
from dashboard.contexts import Crumb, Form, Frame, Meter, Organization
from dashboard.memory import Recalled, read
from dashboard.page import Visit, live
from dashboard.projection import Projection, projection
from dashboard.readings import OrganizationReading, OrganizationSource
from graphql_api import access
from graphql_api.model import Viewer

FRAGMENTS = {
    "status": "_status",
    "cards": "_organization_cards",
    "agents": "_agents",
    "requests-words": "_requests_words",
    "requests-table": "_requests_table",
    "tokens-words": "_tokens_words",
    "tokens-table": "_tokens_table",
}


async def show(visit: Visit, organization_id: str) -> HTTPResponse:
    """The page."""
    return rendering.page("organization", await _context(visit, organization_id))


async def show_live(visit: Visit, organization_id: str) -> HTTPResponse:
    """Its newest numbers."""
    context = await _context(visit, organization_id)
    return live(context, FRAGMENTS, (context.requests_chart, context.tokens_chart))


async def change_limits(visit: Visit, organization_id: str) -> HTTPResponse:
    """Its form was sent."""

    async def again(refused: Callable[[Form], Form], status: int) -> HTTPResponse:
        context = await _context(visit, organization_id, refused)
        return rendering.page("organization", context, status)

    target = limits_change.Target(
        organization_id,
        None,
        organization_url(organization_id),
        (forms.REQUESTS, forms.TOKENS),
        visit.page,
    )
    return await limits_change.change(visit, target, again)


async def _context(
    visit: Visit, organization_id: str, form: Callable[[Form], Form] | None = None
) -> Organization:
    """Read and compose. `form` makes of the form what is to be shown, after it was refused."""
    source = OrganizationSource(visit.management, visit.viewer, organization_id, visit.page)
    recalled: Recalled[OrganizationReading] = await read(visit.memory, source)
    reading, limits = recalled.reading, recalled.reading.limits
    organization, url = reading.organization, organization_url(reading.organization.id)
    tokens = Meter(limits.current_month_tokens, limits.org_tokens_per_month)
    requests_limit = limits.org_requests_per_minute
    return Organization(
        frame=Frame(
            organization.name,
            viewer=visit.viewer,
            crumbs=crumbs(visit.viewer),
            live=f"{url}/live",
            notice=limits_change.notice(visit, limits),
        ),
        outage=composing.outage(recalled),
        as_of=reading.as_of,
        requests=Meter(limits.current_minute_requests, requests_limit),
        tokens=tokens,
        held=limits.held_tokens,
        projection=_projection(reading),
        hour=composing.hour(reading.usage),
        in_flight=limits.in_flight,
        example=example.of(visit.request) if composing.is_idle(reading.usage) else None,
        requests_chart=composing.requests_chart(reading.usage, requests_limit, organization.name),
        tokens_chart=composing.tokens_chart(reading.usage, organization.name),
        lines=tuple(map(composing.agent_line, reading.agents.items)),
        pager=composing.pager(reading.agents, url, "agents"),
        organization_id=organization.id,
        form=_form(visit, reading, form),
        history_url=f"{url}/history",
        changes_url=f"{url}/changes",
    )


def crumbs(viewer: Viewer) -> tuple[Crumb, ...]:
    """The way to an organization's page. For its own operators it is the first one."""
    return (Crumb("Overview", ROOT),) if access.is_platform(viewer) else ()


def _projection(reading: OrganizationReading) -> Projection | None:
    limits = reading.limits
    if limits.current_month_tokens is None or reading.as_of is None:
        return None
    return projection(
        limits.current_month_tokens,
        limits.org_tokens_per_month,
        created_at=reading.organization.created_at,
        now=reading.as_of.astimezone(UTC),
    )


def _form(
    visit: Visit, reading: OrganizationReading, refused: Callable[[Form], Form] | None
) -> Form | None:
    if not access.may_write(visit.viewer):
        return None
    action = composing.paged(
        f"{organization_url(reading.organization.id)}/limits", reading.agents.page
    )
    form = forms.of_organization(reading.limits, action)
    return refused(form) if refused else form

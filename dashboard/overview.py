"""The overview: the platform, and all organizations by pressure. Others see their own only."""

from sanic import HTTPResponse
from sanic.response import redirect

from dashboard import composing, rendering
from dashboard.composing import ROOT, organization_url
from dashboard.contexts import Frame, Meter, Overview
from dashboard.memory import Recalled, read
from dashboard.page import Visit, live
from dashboard.readings import OverviewReading, OverviewSource
from dashboard.security import secured
from graphql_api import access

LIVE = f"{ROOT}/live"
FRAGMENTS = {
    "status": "_status",
    "cards": "_overview_cards",
    "organizations": "_organizations",
    "requests-words": "_requests_words",
    "requests-table": "_requests_table",
}


async def show(visit: Visit) -> HTTPResponse:
    """The page; operators of one organization are led to theirs."""
    viewer = visit.viewer
    if not access.is_platform(viewer):
        assert viewer.organization_id is not None
        return secured(redirect(organization_url(viewer.organization_id), status=303))
    return rendering.page("overview", await _context(visit))


async def show_live(visit: Visit) -> HTTPResponse:
    """Its newest numbers. Raises Forbidden for operators of one organization."""
    context = await _context(visit)
    return live(context, FRAGMENTS, (context.requests_chart,))


async def _context(visit: Visit) -> Overview:
    source = OverviewSource(visit.management, visit.viewer, visit.page)
    recalled: Recalled[OverviewReading] = await read(visit.memory, source)
    reading = recalled.reading
    platform = reading.platform
    limit = platform.requests_per_minute if platform else None
    return Overview(
        frame=Frame("Overview", viewer=visit.viewer, live=LIVE),
        outage=composing.outage(recalled),
        as_of=reading.as_of,
        requests=Meter(platform.current_minute_requests if platform else None, limit),
        hour=composing.hour(reading.usage),
        requests_chart=composing.requests_chart(reading.usage, limit, "the platform"),
        lines=tuple(map(composing.organization_line, reading.organizations.items)),
        pager=composing.pager(reading.organizations, ROOT, "organizations"),
    )

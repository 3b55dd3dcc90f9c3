"""From what was read to the parts of a page. Pure: it adds up and words, and decides nothing."""

from urllib.parse import urlencode

from dashboard import charts
from dashboard.contexts import Chart, Hour, Line, Meter, Outage, Pager
from dashboard.formatting import grouped
from dashboard.memory import Recalled
from dashboard.readings import (
    AgentReading,
    OrganizationReading,
    OverviewReading,
    Row,
    Rows,
    Usage,
)
from graphql_api.model import DeniedCounts

ROOT = "/dashboard"


def organization_url(organization_id: str) -> str:
    return f"{ROOT}/organizations/{organization_id}"


def agent_url(agent_id: str) -> str:
    return f"{ROOT}/agents/{agent_id}"


def outage(
    recalled: Recalled[OverviewReading] | Recalled[OrganizationReading] | Recalled[AgentReading],
) -> Outage | None:
    """What is missing, and of when the numbers are that are shown instead."""
    if recalled.missing is None:
        return None
    return Outage(recalled.missing, recalled.reading.as_of)


def hour(usage: Usage) -> Hour | None:
    """Add up the last hour. None where it is not known."""
    if not usage:
        return None
    denied = [point.denied for point in usage]
    return Hour(
        requests=sum(point.requests for point in usage),
        tokens=sum(point.tokens for point in usage),
        denied=DeniedCounts(
            agent=sum(each.agent for each in denied),
            org=sum(each.org for each in denied),
            platform=sum(each.platform for each in denied),
            tokens=sum(each.tokens for each in denied),
        ),
        open=sum(point.open for point in usage),
        estimated=sum(point.estimated for point in usage),
    )


def requests_chart(usage: Usage, limit: int | None, name: str) -> Chart:
    """Requests per minute against their limit."""
    return Chart(
        "requests",
        "Requests",
        _requests_in_words(usage, limit),
        charts.requests_figure(usage, limit=limit, name=name),
        usage,
    )


def tokens_chart(usage: Usage, name: str) -> Chart:
    """Tokens per minute."""
    figure = charts.tokens_figure(usage, name=name)
    return Chart("tokens", "Tokens", _tokens_in_words(usage), figure, usage)


def organization_line(row: Row) -> Line:
    limits = row.limits
    return Line(
        name=row.name,
        url=organization_url(row.id),
        requests=Meter(limits.current_minute_requests, limits.org_requests_per_minute),
        tokens=Meter(limits.current_month_tokens, limits.org_tokens_per_month),
        hour=None,
        denied=row.denied,
        in_flight=limits.in_flight,
        usage=(),
    )


def agent_line(row: Row) -> Line:
    limits = row.limits
    added = hour(row.usage)
    return Line(
        name=row.name,
        url=agent_url(row.id),
        requests=Meter(limits.current_minute_requests, limits.agent_requests_per_minute),
        tokens=None,
        hour=added,
        denied=added.denied if added else None,
        in_flight=None,
        usage=row.usage,
    )


def pager(rows: Rows, url: str, what: str) -> Pager:
    """Where the page is in the list. `what`: the plural of what is listed."""
    if rows.total is None:
        return Pager(f"The first {_counted(len(rows.items), what)}, the oldest on top", None, None)
    words = f"{_counted(rows.total, what)}, the highest pressure on top"
    if rows.pages == 1:
        return Pager(words, None, None)
    return Pager(
        f"Page {rows.page} of {rows.pages}: {words}",
        paged(url, rows.page - 1) if rows.page > 1 else None,
        paged(url, rows.page + 1) if rows.page < rows.pages else None,
    )


def paged(url: str, page: int) -> str:
    """The URL of a page of a list. The first has the bare one."""
    return url if page == 1 else f"{url}?{urlencode({'page': page})}"


def is_idle(usage: Usage) -> bool:
    """Whether it is known that nothing was asked for in the last hour."""
    added = hour(usage)
    return added is not None and not (added.requests or added.denied_in_all or added.open)


def _counted(count: int, what: str) -> str:
    """Count something that is given in the plural."""
    return f"{grouped(count)} {what if count != 1 else what.removesuffix('s')}"


_UNKNOWN = "The numbers of the last 60 minutes are not known."


def _requests_in_words(usage: Usage, limit: int | None) -> str:
    added = hour(usage)
    if added is None:
        return _UNKNOWN
    most = max(point.requests for point in usage)
    parts = [
        f"Last 60 minutes: {grouped(added.requests)} requests admitted",
        f"{grouped(added.denied_in_all)} denied",
        f"at most {grouped(most)} admitted in a minute",
    ]
    if added.open:
        parts.append(f"{grouped(added.open)} forwarded without a decision")
    parts.append("no limit" if limit is None else f"limit {grouped(limit)}")
    return "; ".join(parts) + "."


def _tokens_in_words(usage: Usage) -> str:
    added = hour(usage)
    if added is None:
        return _UNKNOWN
    most = max(point.tokens for point in usage)
    estimated = f", {grouped(added.estimated)} of them estimated" if added.estimated else ""
    return (
        f"Last 60 minutes: {grouped(added.tokens)} tokens used{estimated};"
        f" at most {grouped(most)} in a minute."
    )

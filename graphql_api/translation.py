"""From rows and live numbers to what operators are shown (model.py)."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeVar

from msgspec import structs

from db.api_keys import Role
from db.limits import Limits
from db.rows import Agent, ApiKey, LimitChange, LimitsSet, Organization
from graphql_api.limits_view import limits_view
from graphql_api.model import (
    AgentView,
    DeniedCounts,
    KeyView,
    OrganizationView,
    Overrides,
    Page,
    RateLimitChangeView,
    RateLimits,
    UsagePoint,
)
from lua.history import Minute
from lua.usage import Live

Row = TypeVar("Row")
View = TypeVar("View", OrganizationView, AgentView, KeyView, RateLimitChangeView)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NONE_DENIED = DeniedCounts()


def page(rows: Sequence[Row], first: int, view: Callable[[Row], View]) -> Page[View]:
    """Make a page of `first` rows. One row more than that says that others follow."""
    items = tuple(view(row) for row in rows[:first])
    return Page(items, items[-1].id if len(rows) > first else None)


def organization(row: Organization) -> OrganizationView:
    return OrganizationView(row.id, row.name, row.version, row.created_at)


def agent(row: Agent) -> AgentView:
    return AgentView(row.id, row.org_id, row.name, row.created_at)


def key(row: ApiKey) -> KeyView:
    return KeyView(
        row.id,
        Role(row.role),
        row.org_id,
        row.agent_id,
        row.prefix,
        row.name,
        row.created_at,
        row.revoked_at,
    )


def limit_change(row: LimitChange) -> RateLimitChangeView:
    return RateLimitChangeView(
        id=str(row.id),
        at=row.at,
        by=row.actor,
        via=row.via,
        organization_id=row.org_id,
        agent_id=row.agent_id,
        field=row.field,
        old=row.old,
        new=row.new,
        agent_name=row.agent_name,
    )


def rate_limits(
    row: LimitsSet, live: Live | None, defaults: Limits, *, global_is_visible: bool
) -> RateLimits:
    """Put limits and live numbers together. `live` None: they are not known."""
    view = limits_view(row.org_id, row.agent_id, row.overrides, defaults)
    limits = RateLimits(
        organization_id=row.org_id,
        agent_id=row.agent_id,
        org_requests_per_minute=view.limits.org_rpm,
        agent_requests_per_minute=view.limits.agent_rpm,
        org_tokens_per_month=view.limits.org_tokens_per_month,
        global_requests_per_minute=view.limits.global_rpm if global_is_visible else None,
        global_is_visible=global_is_visible,
        overrides=Overrides(view.override.requests_per_minute, view.override.tokens_per_month),
        current_minute_requests=None,
        current_month_tokens=None,
        held_tokens=None,
        in_flight=None,
        reset_at=None,
        version=row.version,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )
    return limits if live is None else _with_numbers(limits, live)


def _with_numbers(limits: RateLimits, live: Live) -> RateLimits:
    window = live.org if limits.agent_id is None else live.agent
    return structs.replace(
        limits,
        current_minute_requests=window.used,
        current_month_tokens=live.tokens_used,
        held_tokens=live.tokens_held,
        in_flight=live.in_flight,
        reset_at=_moment(live.now_ms + window.reset_ms),
    )


def usage_point(minute: Minute) -> UsagePoint:
    denied = minute.denied
    return UsagePoint(
        timestamp=_beginning(minute.minute),
        requests=minute.requests,
        tokens=minute.tokens,
        denied=DeniedCounts(
            agent=denied.get("agent", 0),
            org=denied.get("org", 0),
            platform=denied.get("global", 0),
            tokens=denied.get("tokens", 0),
        )
        if denied
        else _NONE_DENIED,
        open=minute.open,
        estimated=minute.estimated,
    )


def denied_in(points: Sequence[UsagePoint]) -> DeniedCounts:
    """Add up what was denied in all of them."""
    return DeniedCounts(
        agent=sum(point.denied.agent for point in points),
        org=sum(point.denied.org for point in points),
        platform=sum(point.denied.platform for point in points),
        tokens=sum(point.denied.tokens for point in points),
    )


@lru_cache(maxsize=256)
def _beginning(minute: int) -> datetime:
    """When it began. A page shows the same sixty minutes of every agent."""
    return _moment(minute * 60_000)


def _moment(ms: int) -> datetime:
    """The time of that many Unix ms, exactly."""
    return _EPOCH + timedelta(milliseconds=ms)

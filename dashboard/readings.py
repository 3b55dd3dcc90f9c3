"""What a page is made from: read with its live numbers, or without where Redis cannot be asked.

A reading is a frozen value, so that it can be kept and shown again. In it `usage` is empty and live
numbers are None where they are not known; `as_of` is None where none of them is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from msgspec import structs

from db.rows import Target
from graphql_api.management import Management
from graphql_api.model import (
    AgentView,
    DeniedCounts,
    KeyView,
    OrganizationView,
    PlatformNumbers,
    RateLimits,
    UsagePoint,
    Viewer,
)

_LIVE = ("current_minute_requests", "current_month_tokens", "held_tokens", "in_flight", "reset_at")
"""The fields of RateLimits that are read from Redis."""

Usage = tuple[UsagePoint, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """An organization or an agent in a list. `usage` is an agent's, `denied` an organization's."""

    id: str
    name: str
    limits: RateLimits
    usage: Usage = ()
    denied: DeniedCounts | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """A page of a list. `total` None: how long the list is is not known; it is the first page."""

    items: tuple[Row, ...]
    total: int | None
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class OverviewReading:
    """The platform and a page of its organizations."""

    platform: PlatformNumbers | None
    usage: Usage
    organizations: Rows
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class OrganizationReading:
    """An organization and a page of its agents."""

    organization: OrganizationView
    limits: RateLimits
    usage: Usage
    agents: Rows
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class AgentReading:
    """An agent, its keys, and its organization."""

    agent: AgentView
    organization: OrganizationView
    limits: RateLimits
    usage: Usage
    keys: tuple[KeyView, ...]
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class OverviewSource:
    """The overview. Its use cases refuse who is no platform operator."""

    ask: Management
    viewer: Viewer
    page: int
    type = OverviewReading

    @property
    def key(self) -> tuple[str, ...]:
        return (self.viewer.key_id, "overview", str(self.page))

    async def live(self) -> OverviewReading:
        platform = await self.ask.platform_numbers(self.viewer)
        usage = await self.ask.usage(self.viewer)
        found = await self.ask.ranked_organizations(self.viewer, page=self.page)
        rows = tuple(
            Row(row.organization.id, row.organization.name, row.limits, (), row.denied_last_hour)
            for row in found.items
        )
        listed = Rows(rows, found.total, found.page, found.pages)
        return OverviewReading(platform, usage, listed, datetime.now(UTC))

    async def standing(self, last: OverviewReading | None) -> OverviewReading:
        if last is not None:
            return replace(
                last, organizations=await _aged(self.ask, self.viewer, last.organizations)
            )
        found = (await self.ask.organizations(self.viewer)).items
        targets = [(organization.id, None) for organization in found]
        return OverviewReading(None, (), await _named(self.ask, self.viewer, found, targets), None)


@dataclass(frozen=True, slots=True)
class OrganizationSource:
    """An organization's page."""

    ask: Management
    viewer: Viewer
    organization_id: str
    page: int
    type = OrganizationReading

    @property
    def key(self) -> tuple[str, ...]:
        return (self.viewer.key_id, "organization", self.organization_id, str(self.page))

    async def live(self) -> OrganizationReading:
        organization = await self.ask.organization(self.viewer, self.organization_id)
        limits = await self.ask.rate_limits(self.viewer, organization.id)
        usage = await self.ask.usage(self.viewer, organization_id=organization.id)
        found = await self.ask.ranked_agents(self.viewer, organization.id, page=self.page)
        rows = tuple(
            Row(row.agent.id, row.agent.name, row.limits, row.usage) for row in found.items
        )
        listed = Rows(rows, found.total, found.page, found.pages)
        return OrganizationReading(organization, limits, usage, listed, datetime.now(UTC))

    async def standing(self, last: OrganizationReading | None) -> OrganizationReading:
        organization = await self.ask.organization(self.viewer, self.organization_id)
        (limits,) = await self.ask.limits_of(self.viewer, [(organization.id, None)])
        if last is not None:
            agents = await _aged(self.ask, self.viewer, last.agents)
            limits = _with_numbers_of(last.limits, limits)
            return OrganizationReading(organization, limits, last.usage, agents, last.as_of)
        found = (await self.ask.agents(self.viewer, organization.id)).items
        targets = [(organization.id, agent.id) for agent in found]
        agents = await _named(self.ask, self.viewer, found, targets)
        return OrganizationReading(organization, limits, (), agents, None)


@dataclass(frozen=True, slots=True)
class AgentSource:
    """An agent's page."""

    ask: Management
    viewer: Viewer
    agent_id: str
    type = AgentReading

    @property
    def key(self) -> tuple[str, ...]:
        return (self.viewer.key_id, "agent", self.agent_id)

    async def live(self) -> AgentReading:
        agent = await self.ask.agent(self.viewer, self.agent_id)
        return AgentReading(
            agent,
            await self.ask.organization(self.viewer, agent.organization_id),
            await self.ask.rate_limits(self.viewer, agent.organization_id, agent.id),
            await self.ask.usage(self.viewer, agent_id=agent.id),
            await self.ask.agent_keys(self.viewer, agent.id),
            datetime.now(UTC),
        )

    async def standing(self, last: AgentReading | None) -> AgentReading:
        agent = await self.ask.agent(self.viewer, self.agent_id)
        organization = await self.ask.organization(self.viewer, agent.organization_id)
        (limits,) = await self.ask.limits_of(self.viewer, [(organization.id, agent.id)])
        keys = await self.ask.agent_keys(self.viewer, agent.id)
        if last is None:
            return AgentReading(agent, organization, limits, (), keys, None)
        limits = _with_numbers_of(last.limits, limits)
        return AgentReading(agent, organization, limits, last.usage, keys, last.as_of)


async def _aged(ask: Management, viewer: Viewer, rows: Rows) -> Rows:
    """The limits of now, with the numbers of then."""
    targets = [(row.limits.organization_id, row.limits.agent_id) for row in rows.items]
    limits = await ask.limits_of(viewer, targets)
    items = tuple(
        replace(row, limits=_with_numbers_of(row.limits, now))
        for row, now in zip(rows.items, limits, strict=True)
    )
    return replace(rows, items=items)


async def _named(
    ask: Management,
    viewer: Viewer,
    found: Sequence[OrganizationView | AgentView],
    targets: Sequence[Target],
) -> Rows:
    """Names and limits, no numbers."""
    limits = await ask.limits_of(viewer, targets)
    items = tuple(Row(each.id, each.name, its) for each, its in zip(found, limits, strict=True))
    return Rows(items, None, 1, 1)


def _with_numbers_of(last: RateLimits, limits: RateLimits) -> RateLimits:
    return structs.replace(limits, **{name: getattr(last, name) for name in _LIVE})

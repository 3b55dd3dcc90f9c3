"""What operators may see and change: the use cases behind GraphQL, REST and the dashboard.

Every method takes the viewer, and refuses in this order: an id that is none (BadInput), what the
viewer does not see (NotFound), what it may not do (Forbidden), values that cannot be used
(BadInput), an outdated version (Conflict). DatabaseUnavailable and, where live numbers are read,
LimiterError say that a server cannot be asked. After an error nothing was changed.

The number of queries and of Redis round trips does not depend on how much is asked for.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from db.api_keys import Role
from db.limits import Limits, OverrideChange
from db.repository import Repository
from db.rows import Target, Via
from graphql_api import access, history, inputs, translation
from graphql_api.errors import LimiterError
from graphql_api.model import (
    AgentRow,
    AgentView,
    Changed,
    IssuedKeyView,
    KeyView,
    OrganizationRow,
    OrganizationView,
    Page,
    PlatformNumbers,
    Ranked,
    RateLimitChangeView,
    RateLimits,
    UsageHistory,
    UsagePoint,
    Viewer,
)
from graphql_api.ranking import Ranking
from graphql_api.service import Service
from lua import keys
from lua.usage import Live, LiveNumbers

DEFAULT_PAGE = 50


class Management:
    """The use cases, over Postgres, Redis and `publish(org_id)`, which says whether it could."""

    def __init__(
        self,
        repository: Repository,
        live: LiveNumbers,
        publish: Callable[[str], Awaitable[bool]],
        defaults: Limits,
    ) -> None:
        self._repository = repository
        self._live = live
        self._service = Service(repository, publish)
        self._defaults = defaults
        self._ranking = Ranking(repository, live, defaults, self.rate_limits_of)

    async def rate_limits(
        self, viewer: Viewer, organization_id: str, agent_id: str | None = None
    ) -> RateLimits:
        """Return the limits and live numbers of an organization, or of one of its agents."""
        (found,) = await self.rate_limits_of(viewer, [(organization_id, agent_id)])
        return found

    async def rate_limits_of_agents(
        self, viewer: Viewer, organization_id: str, agent_ids: Sequence[str]
    ) -> list[RateLimits]:
        """Return those of several agents of an organization, in their order."""
        return await self.rate_limits_of(viewer, [(organization_id, id_) for id_ in agent_ids])

    async def rate_limits_of(self, viewer: Viewer, targets: Sequence[Target]) -> list[RateLimits]:
        """Return those of any organizations and agents, in the order of `targets`."""
        seen = [access.target(viewer, *target) for target in targets]
        rows = await self._repository.limits_set(seen)
        return [
            translation.rate_limits(
                row, numbers, self._defaults, global_is_visible=access.is_platform(viewer)
            )
            for row, numbers in zip(rows, await self._live.of(seen), strict=True)
        ]

    async def limits_of(self, viewer: Viewer, targets: Sequence[Target]) -> list[RateLimits]:
        """Return the limits without the live numbers, which are None: Redis is not asked."""
        seen = [access.target(viewer, *target) for target in targets]
        return [
            translation.rate_limits(
                row, None, self._defaults, global_is_visible=access.is_platform(viewer)
            )
            for row in await self._repository.limits_set(seen)
        ]

    async def platform_numbers(self, viewer: Viewer) -> PlatformNumbers:
        """Return the platform's limit and live number, which platform operators are shown."""
        access.require_platform(viewer, "see the numbers of the platform")
        window = await self._live.platform()
        return PlatformNumbers(self._defaults.global_rpm, window.used)

    async def update_rate_limits(
        self,
        viewer: Viewer,
        organization_id: str,
        agent_id: str | None,
        change: OverrideChange,
        *,
        expected_version: int | None,
        via: Via,
    ) -> Changed[RateLimits]:
        """Change what is set for an organization, or for one of its agents.

        The change stands also when Redis cannot be reached: then it is not published, and the
        live numbers of the answer are None.
        """
        target = access.target(viewer, organization_id, agent_id)
        await access.require_write_to(viewer, target, self._repository)
        version = inputs.version(expected_version)
        outcome = await self._service.update_limits(*target, change, viewer.actor, via, version)
        numbers = await self._numbers_or_none(target) if outcome.published else None
        limits = translation.rate_limits(
            outcome.value.now,
            numbers,
            self._defaults,
            global_is_visible=access.is_platform(viewer),
        )
        return Changed(limits, outcome.published)

    async def usage(
        self, viewer: Viewer, *, organization_id: str | None = None, agent_id: str | None = None
    ) -> tuple[UsagePoint, ...]:
        """Return the last 60 minutes, the oldest first, of an organization, agent or the platform.

        With neither id it is the platform's, which only platform operators are shown.
        """
        ring = await self._ring(viewer, organization_id, agent_id)
        return tuple(translation.usage_point(minute) for minute in await self._live.last_hour(ring))

    async def usage_history(
        self,
        viewer: Viewer,
        *,
        organization_id: str | None = None,
        agent_id: str | None = None,
        **asked: object,
    ) -> UsageHistory:
        """Return hours or days, the oldest first. `asked`: what `history.period` takes."""
        period = history.period(datetime.now(UTC), **asked)
        if agent_id is not None:
            inputs.absent("organization_id", organization_id, "is not given together with agent_id")
            agent = await self.agent(viewer, agent_id)
            org_id, agent_id = agent.organization_id, agent.id
        else:
            org_id = (await self.organization(viewer, organization_id or "")).id
        found = await self._repository.ledger.spans(org_id, agent_id, *period)
        return UsageHistory(period[0], history.filled(found, period))

    async def changes(
        self,
        viewer: Viewer,
        organization_id: str,
        *,
        first: int = DEFAULT_PAGE,
        after: str | None = None,
    ) -> Page[RateLimitChangeView]:
        """Return who changed which limits of an organization and its agents, the newest first."""
        org_id = access.organization(viewer, organization_id)
        first, cursor = inputs.first(first), inputs.number_cursor(after)
        rows = await self._repository.limit_changes_page(org_id, cursor, first + 1)
        return translation.page(rows, first, translation.limit_change)

    async def organizations(
        self, viewer: Viewer, *, first: int = DEFAULT_PAGE, after: str | None = None
    ) -> Page[OrganizationView]:
        """Return the organizations that the viewer sees, the oldest first."""
        first, cursor = inputs.first(first), inputs.id_cursor(after)
        only = access.scope(viewer)
        rows = await self._repository.organizations_page(only, cursor, first + 1)
        return translation.page(rows, first, translation.organization)

    async def organization(self, viewer: Viewer, organization_id: str) -> OrganizationView:
        org_id = access.organization(viewer, organization_id)
        return translation.organization(await self._repository.organization(org_id))

    async def agent(self, viewer: Viewer, agent_id: str) -> AgentView:
        id_ = inputs.uuid("agent_id", agent_id)
        return translation.agent(await self._repository.agent(id_, access.scope(viewer)))

    async def agents(
        self,
        viewer: Viewer,
        organization_id: str,
        *,
        first: int = DEFAULT_PAGE,
        after: str | None = None,
    ) -> Page[AgentView]:
        """Return the agents of an organization, the oldest first."""
        org_id = access.organization(viewer, organization_id)
        first, cursor = inputs.first(first), inputs.id_cursor(after)
        rows = await self._repository.agents_page(org_id, cursor, first + 1)
        return translation.page(rows, first, translation.agent)

    async def keys(
        self,
        viewer: Viewer,
        organization_id: str,
        *,
        first: int = DEFAULT_PAGE,
        after: str | None = None,
    ) -> Page[KeyView]:
        """Return the keys of an organization's agents and operators, the oldest first."""
        org_id = access.organization(viewer, organization_id)
        first, cursor = inputs.first(first), inputs.id_cursor(after)
        rows = await self._repository.keys_page(org_id, cursor, first + 1)
        return translation.page(rows, first, translation.key)

    async def ranked_organizations(
        self, viewer: Viewer, *, page: int = 1, size: int = DEFAULT_PAGE
    ) -> Ranked[OrganizationRow]:
        """Return the organizations that the viewer sees, the highest pressure first.

        Those of equal pressure are in the order of their requests now, then of their names. A page
        past the last one is the last one.
        """
        page, size = inputs.page(page), inputs.size(size)
        return await self._ranking.organizations(viewer, access.scope(viewer), page, size)

    async def ranked_agents(
        self, viewer: Viewer, organization_id: str, *, page: int = 1, size: int = DEFAULT_PAGE
    ) -> Ranked[AgentRow]:
        """Return the agents of an organization in the same order."""
        org_id = access.organization(viewer, organization_id)
        page, size = inputs.page(page), inputs.size(size)
        return await self._ranking.agents(viewer, org_id, page, size)

    async def agent_keys(self, viewer: Viewer, agent_id: str) -> tuple[KeyView, ...]:
        """Return the keys of an agent, revoked ones too, the oldest first."""
        id_ = inputs.uuid("agent_id", agent_id)
        rows = await self._repository.agent_keys(id_, access.scope(viewer))
        return tuple(map(translation.key, rows))

    async def create_organization(self, viewer: Viewer, name: str) -> OrganizationView:
        access.require_platform(viewer, "create organizations")
        return translation.organization(await self._service.create_organization(name))

    async def create_agent(
        self, viewer: Viewer, organization_id: str, name: str
    ) -> Changed[AgentView]:
        org_id = access.organization(viewer, organization_id)
        access.require_write(viewer)
        outcome = await self._service.create_agent(org_id, name)
        return Changed(translation.agent(outcome.value), outcome.published)

    async def issue_key(
        self,
        viewer: Viewer,
        *,
        role: Role,
        organization_id: str | None,
        agent_id: str | None,
        name: str = "",
    ) -> Changed[IssuedKeyView]:
        """Issue a key: an agent's names its agent, an operator's its organization, the platform's
        neither. An agent's may name the organization too. The secret is returned this once.
        """
        wanted = inputs.role(role)
        ids = await access.ids_of_key(viewer, wanted, (organization_id, agent_id), self._repository)
        outcome = await self._service.issue_key(wanted, *ids, name)
        issued = outcome.value
        view = IssuedKeyView(translation.key(issued.key), issued.secret)
        return Changed(view, outcome.published)

    async def revoke_key(self, viewer: Viewer, key_id: str) -> Changed[KeyView]:
        """Revoke a key of the viewer's organization; any, for platform operators."""
        id_ = inputs.uuid("key_id", key_id)
        if not access.may_write(viewer):
            await self._repository.key(id_, access.scope(viewer))
            access.require_write(viewer)
        outcome = await self._service.revoke_key(id_, access.scope(viewer))
        return Changed(translation.key(outcome.value), outcome.published)

    async def _ring(self, viewer: Viewer, organization_id: str | None, agent_id: str | None) -> str:
        """Return the key of the ring that counts an agent, an organization or the platform."""
        if agent_id is not None:
            inputs.absent("organization_id", organization_id, "is not given together with agent_id")
            agent = await self.agent(viewer, agent_id)
            return keys.agent_ring(agent.organization_id, agent.id)
        if organization_id is not None:
            return keys.org_ring((await self.organization(viewer, organization_id)).id)
        access.require_platform(viewer, "see the usage of the platform")
        return keys.GLOBAL_RING

    async def _numbers_or_none(self, target: Target) -> Live | None:
        try:
            (numbers,) = await self._live.of([target])
        except LimiterError:
            return None
        return numbers

"""What operators can do, once for every face: command line, API and dashboard.

Each change is one transaction, and is then published, so that gateways take it over at once. All
methods raise the errors of `graphql_api.errors`; after an error nothing was changed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from db import api_keys
from db.api_keys import Role
from db.limits import Limits, Override, OverrideChange
from db.repository import Repository
from db.rows import Agent, ApiKey, Author, LimitsSet, NewKey, Organization, Via
from graphql_api import inputs
from graphql_api.limits_view import LimitsView, limits_view

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What a change brought about.

    `published` False: gateways could not be told, and find out by their next poll.
    """

    value: T
    published: bool


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key. `key` is the secret itself: it cannot be read again."""

    id: str
    key: str = field(repr=False)
    prefix: str


@dataclass(frozen=True, slots=True)
class NewlyIssued:
    """A new key as it is stored, and its secret."""

    key: ApiKey
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LimitsUpdate:
    """What was set before an update, and what is set since. They may be equal."""

    before: Override
    now: LimitsSet


class Service:
    """The use cases, over Postgres and `publish(org_id)`, which says whether it could."""

    def __init__(self, repository: Repository, publish: Callable[[str], Awaitable[bool]]) -> None:
        self._repository = repository
        self._publish = publish

    async def create_organization(self, name: str) -> Organization:
        return await self._repository.create_organization(inputs.name(name))

    async def list_organizations(self) -> list[Organization]:
        return await self._repository.organizations()

    async def create_agent(self, org_id: str, name: str) -> Outcome[Agent]:
        org_id = inputs.uuid("org_id", org_id)
        agent = await self._repository.create_agent(org_id, inputs.name(name))
        return Outcome(agent, await self._publish(org_id))

    async def list_agents(self, org_id: str) -> list[Agent]:
        return await self._repository.agents(inputs.uuid("org_id", org_id))

    async def issue_agent_key(self, agent_id: str, name: str = "") -> Outcome[IssuedKey]:
        """Issue a key with which the agent sends traffic. Its other keys stay valid."""
        agent = await self._repository.agent(inputs.uuid("agent_id", agent_id))
        return _shown(await self.issue_key(Role.AGENT, agent.org_id, agent.id, name))

    async def issue_operator_key(
        self, org_id: str, role: Role, name: str = ""
    ) -> Outcome[IssuedKey]:
        """Issue a key for one organization's operators, of role admin or read_only."""
        org_id = inputs.uuid("org_id", org_id)
        return _shown(await self.issue_key(inputs.operator_role(role), org_id, None, name))

    async def issue_platform_key(self, name: str = "") -> Outcome[IssuedKey]:
        """Issue a key for the operators of the whole platform."""
        return _shown(await self.issue_key(Role.PLATFORM, None, None, name))

    async def issue_key(
        self, role: Role, org_id: str | None, agent_id: str | None, name: str
    ) -> Outcome[NewlyIssued]:
        """Issue a key of any role. The ids must be the scope of that role."""
        secret = api_keys.generate(role)
        digest, prefix = api_keys.digest(secret), api_keys.prefix(secret)
        new = NewKey(role, org_id, agent_id, digest, prefix, inputs.label(name))
        stored = await self._repository.add_key(new)
        return Outcome(NewlyIssued(stored, secret), await self._told(org_id))

    async def revoke_key(self, key_id: str, org_id: str | None = None) -> Outcome[ApiKey]:
        """Revoke a key of that organization, or any (None), for ever. Again changes nothing."""
        key = await self._repository.revoke_key(inputs.uuid("key_id", key_id), org_id)
        return Outcome(key, await self._told(key.org_id))

    async def read_limits(self, org_id: str, agent_id: str | None, defaults: Limits) -> LimitsView:
        """Return the limits of an organization (`agent_id` None) or of one of its agents."""
        org_id, agent_id = _target(org_id, agent_id)
        (found,) = await self._repository.limits_set([(org_id, agent_id)])
        return limits_view(org_id, agent_id, found.overrides, defaults)

    async def update_limits(
        self,
        org_id: str,
        agent_id: str | None,
        change: OverrideChange,
        actor: str,
        via: Via,
        expected_version: int | None = None,
    ) -> Outcome[LimitsUpdate]:
        """Change what is set for an organization (`agent_id` None) or one of its agents.

        Every limit that really changes is recorded with its author. An update that changes
        nothing is published too: so one that could not be published can be repeated. Raises
        Conflict where the organization is not at `expected_version`; None: whatever it is.
        """
        org_id, agent_id = _target(org_id, agent_id)
        accepted = inputs.override_change(agent_id, change)
        before, now = await self._repository.change_override(
            org_id, agent_id, accepted, Author(actor, via), expected_version
        )
        return Outcome(LimitsUpdate(before, now), await self._publish(org_id))

    async def _told(self, org_id: str | None) -> bool:
        """Publish. A platform key (`org_id` None) is held by no gateway: nobody has to be told."""
        return org_id is None or await self._publish(org_id)


def _target(org_id: str, agent_id: str | None) -> tuple[str, str | None]:
    agent = None if agent_id is None else inputs.uuid("agent_id", agent_id)
    return inputs.uuid("org_id", org_id), agent


def _shown(outcome: Outcome[NewlyIssued]) -> Outcome[IssuedKey]:
    issued = outcome.value
    return Outcome(IssuedKey(issued.key.id, issued.secret, issued.key.prefix), outcome.published)

"""What the repository returns. Ids are UUIDs as lowercase strings; times are aware, in UTC."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from db.api_keys import Role
from db.limits import Override

Via = Literal["cli", "graphql", "rest", "dashboard"]
Target = tuple[str, str | None]
"""What limits are set for: an organization and one of its agents, or None for all of it."""


@dataclass(frozen=True, slots=True)
class Organization:
    id: str
    name: str
    version: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Agent:
    id: str
    org_id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored: all but the secret. `revoked_at` None: it is live."""

    id: str
    role: Role
    org_id: str | None
    agent_id: str | None
    prefix: str
    name: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to be stored. An agent's key has both ids, a platform's has none."""

    role: Role
    org_id: str | None
    agent_id: str | None
    digest: bytes
    prefix: str
    name: str


@dataclass(frozen=True, slots=True)
class Overrides:
    """What is set for an organization, and for the agent that was asked for."""

    org: Override
    agent: Override


@dataclass(frozen=True, slots=True)
class LimitsSet:
    """What is set for an organization (`agent_id` None) or agent, as of the organization's version.

    `updated_at` and `updated_by` tell the last change of this very target; None: there was none.
    """

    org_id: str
    agent_id: str | None
    version: int
    overrides: Overrides
    updated_at: datetime | None
    updated_by: str | None


@dataclass(frozen=True, slots=True)
class LimitChange:
    """One row of the audit. `old` and `new` None: inherited."""

    id: int
    at: datetime
    actor: str
    via: Via
    org_id: str
    agent_id: str | None
    field: str
    old: int | None
    new: int | None
    agent_name: str | None


@dataclass(frozen=True, slots=True)
class AgentConfig:
    id: str
    name: str
    override: Override


@dataclass(frozen=True, slots=True)
class KeyConfig:
    """A live key of an agent: its SHA-256 is how the gateway finds the caller."""

    id: str
    digest: bytes
    agent_id: str


@dataclass(frozen=True, slots=True)
class OrganizationConfig:
    """All that a gateway must know of an organization, as of `version`."""

    id: str
    version: int
    override: Override
    agents: tuple[AgentConfig, ...]
    keys: tuple[KeyConfig, ...]


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes a limit, such as `cli:root` or `key:<id> <name>`, and through what."""

    actor: str
    via: Via

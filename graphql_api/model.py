"""What the use cases return to operators: plain frozen values, one vocabulary for both faces.

Counts and limits are whole numbers up to 2^53 - 1; a limit of None is no limit. Times are aware, in
UTC. Field names are those of the REST bodies; GraphQL spells them in camel case.
"""

from datetime import datetime
from typing import Generic, TypeVar

import msgspec

from db.api_keys import Role
from db.ledger import Span, UsageSpan

T = TypeVar("T")


class Viewer(msgspec.Struct, frozen=True):
    """Who asks: an operator's key. `organization_id` None: a platform operator."""

    key_id: str
    key_name: str
    role: Role
    organization_id: str | None

    @property
    def actor(self) -> str:
        """How the audit names it."""
        return f"key:{self.key_id} {self.key_name}".rstrip()


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list. `next` is the cursor of what follows, None at the end."""

    items: tuple[T, ...]
    next: str | None


class Ranked(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list that is ordered by live numbers, so that its parts move while it is read.

    `page` counts from 1 to `pages`, of which there is always one. `total` counts the whole list.
    """

    items: tuple[T, ...]
    total: int
    page: int
    pages: int


class Overrides(msgspec.Struct, frozen=True):
    """What is set for this organization or agent itself; None is inherited."""

    requests_per_minute: int | None
    tokens_per_month: int | None


class RateLimits(msgspec.Struct, frozen=True):
    """Limits in force, what is set here, and the live numbers that the limiter decides by.

    `global_requests_per_minute` is told to platform operators only (`global_is_visible`).
    `current_minute_requests` counts the agent's where `agent_id` is given; tokens and `in_flight`
    are always the organization's. `reset_at`: when the trailing window is empty if nothing more is
    sent; now where it is empty.

    The live numbers, from `current_minute_requests` to `reset_at`, are None where limits alone are
    asked for, and in the answer to an update after which Redis could not be asked: the update
    stands, and its numbers are not known. Reading numbers never returns None: without Redis it
    raises LimiterError.
    """

    organization_id: str
    agent_id: str | None
    org_requests_per_minute: int | None
    agent_requests_per_minute: int | None
    org_tokens_per_month: int | None
    global_requests_per_minute: int | None
    global_is_visible: bool
    overrides: Overrides
    current_minute_requests: int | None
    current_month_tokens: int | None
    held_tokens: int | None
    in_flight: int | None
    reset_at: datetime | None
    version: int
    updated_at: datetime | None
    updated_by: str | None


class PlatformNumbers(msgspec.Struct, frozen=True):
    """The platform's own limit, and the requests of everybody in the trailing 60 s."""

    requests_per_minute: int | None
    current_minute_requests: int


class DeniedCounts(msgspec.Struct, frozen=True):
    """Requests denied in a minute, by the level that denied them."""

    agent: int = 0
    org: int = 0
    platform: int = msgspec.field(default=0, name="global")
    tokens: int = 0


class UsagePoint(msgspec.Struct, frozen=True):
    """One minute; `timestamp` is its beginning.

    `tokens` count in the minute in which they were settled. `estimated` are those of them that come
    from requests whose usage the provider did not report, or not wholly. `open` counts what was
    forwarded without a decision, because the limiter gave none in time. It is not among `requests`,
    unless the decision came late.
    """

    timestamp: datetime
    requests: int
    tokens: int
    denied: DeniedCounts
    open: int = 0
    estimated: int = 0


class UsageHistory(msgspec.Struct, frozen=True):
    """Hours or days (`by`), the oldest first, idle ones too. The last one may be running still."""

    by: Span
    spans: tuple[UsageSpan, ...]


class OrganizationView(msgspec.Struct, frozen=True):
    """An organization."""

    id: str
    name: str
    version: int
    created_at: datetime


class AgentView(msgspec.Struct, frozen=True):
    """An agent of an organization."""

    id: str
    organization_id: str
    name: str
    created_at: datetime


class OrganizationRow(msgspec.Struct, frozen=True):
    """An organization among others. `pressure`: see pressure.py; above 1 the use is over a limit.

    `denied_last_hour` counts the last 60 minutes, the running one included.
    """

    organization: OrganizationView
    limits: RateLimits
    pressure: float
    denied_last_hour: DeniedCounts


class AgentRow(msgspec.Struct, frozen=True):
    """An agent among those of its organization. `usage` is its last 60 minutes, oldest first."""

    agent: AgentView
    limits: RateLimits
    pressure: float
    usage: tuple[UsagePoint, ...]


class KeyView(msgspec.Struct, frozen=True):
    """A key without its secret. `revoked_at` None: it is live."""

    id: str
    role: Role
    organization_id: str | None
    agent_id: str | None
    prefix: str
    name: str
    created_at: datetime
    revoked_at: datetime | None


class IssuedKeyView(msgspec.Struct, frozen=True):
    """A new key. `secret` is shown this once."""

    key: KeyView
    secret: str

    def __repr__(self) -> str:
        return f"IssuedKeyView({self.key.id})"


class RateLimitChangeView(msgspec.Struct, frozen=True):
    """One row of the audit. `old` and `new` None: inherited. `agent_name` is the agent's of now."""

    id: str
    at: datetime
    by: str
    via: str
    organization_id: str
    agent_id: str | None
    field: str
    old: int | None
    new: int | None
    agent_name: str | None


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """What a change brought about. `published` False: gateways follow with their next poll."""

    value: T
    published: bool

"""The JSON bodies of the REST API, where they are not those of `graphql_api.model` as they stand.

The types are what is decoded, what is encoded and what /openapi.json says. What the types alone
cannot express (a range, the form of an id) is documented here and checked by the use cases, so that
every face refuses the same values in the same words.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from db.api_keys import Role
from db.ledger import Span, UsageSpan
from db.limits import MAX_LIMIT, OverrideChange
from graphql_api.inputs import MAX_NAME_LENGTH
from graphql_api.model import (
    AgentView,
    KeyView,
    OrganizationView,
    Overrides,
    UsagePoint,
)

UUID_PATTERN = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
NUMBER_PATTERN = "^[1-9][0-9]{0,17}$"
# The same characters in every dialect of regular expressions; `\s` differs between them.
_SPACE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_PLAIN = f"[^{_CONTROL}]"
_VISIBLE = f"[^{_CONTROL}{_SPACE}]"
_LINE = f"{_VISIBLE}({_PLAIN}{{0,{MAX_NAME_LENGTH - 2}}}{_VISIBLE})?"
NAME_PATTERN = f"^[{_SPACE}]*{_LINE}[{_SPACE}]*$"
LABEL_PATTERN = f"^[{_SPACE}]*({_LINE}[{_SPACE}]*)?$"

Limit = Annotated[
    int | float,  # JSON has one kind of number: 60.0 is the whole number 60
    Meta(
        description=f"a whole number from 0 to {MAX_LIMIT}; null inherits",
        extra_json_schema={"type": "integer", "minimum": 0, "maximum": MAX_LIMIT},
    ),
]
Id = Annotated[
    str,
    Meta(
        description="a UUID, such as 8db83585-fd25-4a63-89fa-957ac5e7fb23",
        extra_json_schema={"format": "uuid", "pattern": UUID_PATTERN},
    ),
]
Name = Annotated[
    str,
    Meta(
        description=f"one line of 1 to {MAX_NAME_LENGTH} characters without control characters",
        extra_json_schema={"pattern": NAME_PATTERN},
    ),
]
Label = Annotated[
    str,
    Meta(
        description=f"one line of up to {MAX_NAME_LENGTH} characters without control characters",
        extra_json_schema={"pattern": LABEL_PATTERN},
    ),
]


class LimitsPatch(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch of what is set for an organization. Absent keeps, null inherits."""

    requests_per_minute: Limit | UnsetType | None = UNSET
    tokens_per_month: Limit | UnsetType | None = UNSET

    def change(self) -> OverrideChange:
        """The change that is asked for, its values not yet checked."""
        return OverrideChange(_whole(self.requests_per_minute), _whole(self.tokens_per_month))


class AgentLimitsPatch(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch of what is set for an agent. Absent keeps, null inherits.

    Documents what `LimitsPatch` is for an agent: the token ceiling is the organization's.
    """

    requests_per_minute: Limit | UnsetType | None = UNSET


class NewOrganization(msgspec.Struct, forbid_unknown_fields=True):
    """An organization to be created."""

    name: Name


class NewAgent(msgspec.Struct, forbid_unknown_fields=True):
    """An agent to be created."""

    name: Name


class NewPlatformKey(msgspec.Struct, forbid_unknown_fields=True):
    """A key to be issued to the platform's operators."""

    name: Label = ""


class _NewKey(msgspec.Struct, forbid_unknown_fields=True, tag_field="role", kw_only=True):
    name: Label = ""

    @property
    def role(self) -> Role:
        return Role(str(self.__struct_config__.tag))


class NewAgentKey(_NewKey, tag="agent"):
    """A key with which an agent sends traffic."""

    agent_id: Id


class NewAdminKey(_NewKey, tag="admin"):
    """A key for operators who may change the organization's limits, agents and keys."""


class NewReadOnlyKey(_NewKey, tag="read_only"):
    """A key for operators who only look."""


NewKey = NewAgentKey | NewAdminKey | NewReadOnlyKey


class RateLimitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in force (null: no limit), what is set here, and the numbers decided by.

    `current_minute_requests` counts the trailing 60 seconds, `current_month_tokens` the UTC month.
    The live numbers, up to `reset_at`, are null only after a change for which they could not be
    read. `global_requests_per_minute` is there for the platform's operators only.
    """

    organization_id: str
    agent_id: str | None
    org_requests_per_minute: int | None
    agent_requests_per_minute: int | None
    org_tokens_per_month: int | None
    global_requests_per_minute: int | UnsetType | None = UNSET
    overrides: Overrides
    current_minute_requests: int | None
    current_month_tokens: int | None
    held_tokens: int | None
    in_flight: int | None
    reset_at: datetime | None
    version: int
    updated_at: datetime | None
    updated_by: str | None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The last 60 minutes, oldest first. Names whose they are; the platform's name nobody."""

    organization_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    points: tuple[UsagePoint, ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Hours or days, the oldest first, idle ones too. Names whose they are.

    `denied` counts all levels, `opened` what was forwarded without a decision, `estimated` those of
    `tokens` that nobody reported. The last one may be running still.
    """

    organization_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    by: Span
    spans: tuple[UsageSpan, ...]


class RateLimitChange(msgspec.Struct, frozen=True):
    """A change of a limit: who (`by`) made it, through what (`via`). Null: inherited."""

    id: str
    at: datetime
    by: str
    via: str
    agent_id: str | None
    field: str
    old: int | None
    new: int | None


class Changes(msgspec.Struct, frozen=True):
    """The newest changes first. `next`: the `after` of what follows, null at the end."""

    changes: tuple[RateLimitChange, ...]
    next: str | None


class Organizations(msgspec.Struct, frozen=True):
    """A page of organizations. `next`: the `after` of what follows, null at the end."""

    organizations: tuple[OrganizationView, ...]
    next: str | None


class Agents(msgspec.Struct, frozen=True):
    """A page of agents. `next`: the `after` of what follows, null at the end."""

    agents: tuple[AgentView, ...]
    next: str | None


class Keys(msgspec.Struct, frozen=True):
    """A page of keys, live and revoked. `next`: the `after` of what follows, null at the end."""

    keys: tuple[KeyView, ...]
    next: str | None


def _whole(limit: Any) -> Any:
    """A whole number as an int. Anything else stays as it is, to be refused."""
    is_whole = isinstance(limit, float) and limit.is_integer() and abs(limit) <= MAX_LIMIT
    return int(limit) if is_whole else limit

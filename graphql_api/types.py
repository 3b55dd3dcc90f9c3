"""The types of the GraphQL schema, made from the model's values.

`published` tells of a change: true, gateways act on it at once; false, they could not be told, and
follow with their next poll; null, nothing was changed by this request.
"""

import dataclasses
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any, Self, TypeVar, cast

import strawberry
from strawberry import ID, Private

from db.api_keys import Role
from graphql_api import model
from graphql_api.connections import Connection, connection, page_of
from graphql_api.context import Context
from graphql_api.errors import Forbidden
from graphql_api.graphql_errors import LiveNumbersUnknown
from graphql_api.management import DEFAULT_PAGE
from graphql_api.scalars import BigInt

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")
Info = strawberry.Info[Context, None]

PUBLISHED = (
    "After a change: whether gateways were told, and act on it at once; if false, they follow with "
    "their next poll. Null where nothing was changed."
)

strawberry.enum(Role, description="What a key is for.")


def documented(description: str) -> Callable[[F], F]:
    """A field that is resolved by what it decorates; Strawberry's own decorator is untyped."""
    return cast("Callable[[F], F]", strawberry.field(description=description))


class FromModel:
    """A type whose fields are the model's, by the same names."""

    @classmethod
    def of(cls, view: Any, /, **more: object) -> Self:
        """Take over the fields that the model has too; `more` are those that it has not."""
        names = {field.name for field in dataclasses.fields(cls) if field.init} - more.keys()  # type: ignore[arg-type]
        return cls(**{name: getattr(view, name) for name in names if hasattr(view, name)}, **more)


@strawberry.type(description="Who asks.")
class Viewer(FromModel):
    key_id: ID
    key_name: str
    role: Role
    organization_id: ID | None


@strawberry.type(description="What is set here; null is inherited from the platform's default.")
class Overrides(FromModel):
    requests_per_minute: BigInt | None
    tokens_per_month: BigInt | None


@strawberry.type(
    description="Limits in force (null: no limit; 0: nothing is admitted), and the live numbers "
    "that the limiter decides by. Tokens and requests in flight are the organization's, also where "
    "an agent was asked for."
)
class RateLimits(FromModel):
    view: Private[model.RateLimits]
    organization_id: ID
    agent_id: ID | None
    org_requests_per_minute: BigInt | None
    agent_requests_per_minute: BigInt | None
    org_tokens_per_month: BigInt | None
    overrides: Overrides
    version: BigInt
    updated_at: datetime | None
    updated_by: str | None
    published: bool | None = strawberry.field(default=None, description=PUBLISHED)

    @documented("The platform's own limit: for platform operators only.")
    def global_requests_per_minute(self) -> BigInt | None:
        if not self.view.global_is_visible:
            raise Forbidden("only platform operators may see the platform's own limit")
        return self.view.global_requests_per_minute  # type: ignore[return-value]

    @documented("Requests in the trailing 60 seconds.")
    def current_minute_requests(self) -> BigInt:
        return BigInt(_known(self.view.current_minute_requests))

    @documented("Tokens used in this UTC month.")
    def current_month_tokens(self) -> BigInt:
        return BigInt(_known(self.view.current_month_tokens))

    @documented("Tokens held for requests that are not settled yet.")
    def held_tokens(self) -> BigInt:
        return BigInt(_known(self.view.held_tokens))

    @strawberry.field
    def in_flight(self) -> BigInt:
        return BigInt(_known(self.view.in_flight))

    @documented("When the trailing 60 seconds are empty, if nothing more comes.")
    def reset_at(self) -> datetime:
        return _known(self.view.reset_at)


def _known(number: V | None) -> V:
    if number is None:
        raise LiveNumbersUnknown
    return number


def rate_limits(view: model.RateLimits, published: bool | None = None) -> RateLimits:  # noqa: FBT001 - as in the model's Changed
    """The limits and numbers of an organization or agent."""
    overrides = Overrides.of(view.overrides)
    return RateLimits.of(view, view=view, overrides=overrides, published=published)


@strawberry.type(description="Requests that were denied, by the level that denied them.")
class DeniedCounts(FromModel):
    agent: BigInt
    org: BigInt
    platform: BigInt = strawberry.field(name="global")
    tokens: BigInt


@strawberry.type(description="One minute; `timestamp` is its beginning.")
class RateLimitUsagePoint(FromModel):
    timestamp: datetime
    requests: BigInt
    tokens: BigInt = strawberry.field(description="In the minute in which they were settled.")
    denied: DeniedCounts
    open: BigInt = strawberry.field(
        description="Forwarded without a decision, because the limiter gave none in time. Not "
        "among `requests`, unless the decision came late."
    )
    estimated: BigInt = strawberry.field(
        description="Those of `tokens` that come from requests whose usage the provider did not "
        "report, or not wholly."
    )


@strawberry.type(description="The last 60 minutes, the oldest first; idle ones are zero.")
class RateLimitUsage:
    points: list[RateLimitUsagePoint]


def rate_limit_usage(points: tuple[model.UsagePoint, ...]) -> RateLimitUsage:
    """The last 60 minutes."""
    return RateLimitUsage(
        points=[
            RateLimitUsagePoint.of(point, denied=DeniedCounts.of(point.denied)) for point in points
        ]
    )


@strawberry.enum
class UsageBy(Enum):
    HOUR = "hour"
    DAY = "day"


@strawberry.type(description="An hour or a day in UTC; `start` is its beginning.")
class UsageSpan(FromModel):
    start: datetime
    requests: BigInt
    denied: BigInt = strawberry.field(description="By any level.")
    opened: BigInt = strawberry.field(description="Forwarded without a decision.")
    tokens: BigInt
    estimated: BigInt = strawberry.field(description="Those of `tokens` that nobody reported.")


@strawberry.type(description="One change of one limit. `old` and `new`: null is inherited.")
class RateLimitChange(FromModel):
    id: ID
    at: datetime
    by: str
    via: str
    organization_id: ID
    agent_id: ID | None
    field: str
    old: BigInt | None
    new: BigInt | None


@strawberry.type
class Agent(FromModel):
    id: ID
    organization_id: ID
    name: str
    created_at: datetime
    published: bool | None = strawberry.field(default=None, description=PUBLISHED)

    @strawberry.field
    async def rate_limits(self, info: Info) -> RateLimits:
        return rate_limits(await info.context.rate_limits.load((self.organization_id, self.id)))


@strawberry.type(description="A key without its secret. `revokedAt` null: it is live.")
class Key(FromModel):
    id: ID
    role: Role
    organization_id: ID | None
    agent_id: ID | None
    prefix: str
    name: str
    created_at: datetime
    revoked_at: datetime | None
    published: bool | None = strawberry.field(default=None, description=PUBLISHED)


@strawberry.type
class IssuedKey:
    key: Key
    secret: str = strawberry.field(description="What its holder sends; shown this once.")
    published: bool = strawberry.field(description=PUBLISHED)


@strawberry.type
class Organization(FromModel):
    id: ID
    name: str
    version: BigInt
    created_at: datetime

    @strawberry.field
    async def agents(
        self, info: Info, first: int | None = DEFAULT_PAGE, after: str | None = None
    ) -> Connection[Agent]:
        context = info.context
        paging = page_of(first, after)
        page = await context.page(context.management.agents(context.viewer, self.id, **paging))
        return connection(page, Agent.of)

    @strawberry.field
    async def keys(
        self, info: Info, first: int | None = DEFAULT_PAGE, after: str | None = None
    ) -> Connection[Key]:
        context = info.context
        paging = page_of(first, after)
        page = await context.page(context.management.keys(context.viewer, self.id, **paging))
        return connection(page, Key.of)

    @strawberry.field
    async def rate_limits(self, info: Info) -> RateLimits:
        return rate_limits(await info.context.rate_limits.load((self.id, None)))

    @strawberry.field
    async def usage(self, info: Info) -> RateLimitUsage:
        context = info.context
        asked = context.management.usage(context.viewer, organization_id=self.id)
        return rate_limit_usage(await context.turn(asked))

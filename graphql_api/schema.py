"""The GraphQL schema: every field asks the use cases, which decide who may.

`graphql_api/schema.graphql` is this schema as clients read it. To write it anew:
`python -m graphql_api.schema > graphql_api/schema.graphql`.
"""

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import strawberry
from graphql import GraphQLError, OperationDefinitionNode
from msgspec import UNSET, UnsetType
from strawberry import ID
from strawberry.extensions import AddValidationRules, MaxTokensLimiter, SchemaExtension
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from db.api_keys import Role
from db.limits import OverrideChange
from graphql_api.connections import Connection, connection, page_of
from graphql_api.management import DEFAULT_PAGE
from graphql_api.query_limits import MAX_TOKENS, QueryLimits
from graphql_api.scalars import SCALARS, BigInt
from graphql_api.types import (
    Agent,
    Info,
    IssuedKey,
    Key,
    Organization,
    RateLimitChange,
    RateLimits,
    RateLimitUsage,
    UsageBy,
    UsageSpan,
    Viewer,
    documented,
    rate_limit_usage,
    rate_limits,
)


@strawberry.input(
    description="A limit that is left out stays as it is; null returns it to the platform's "
    "default. The token ceiling is the organization's, so it is not given with an agentId."
)
class UpdateRateLimitsInput:
    organization_id: ID
    agent_id: ID | None = None
    requests_per_minute: strawberry.Maybe[BigInt | None]
    tokens_per_month: strawberry.Maybe[BigInt | None]
    expected_version: BigInt | None = strawberry.field(
        default=None, description="Refused with CONFLICT if the version is another one by now."
    )


@strawberry.type
class Query:
    @documented("Who am I?")
    def viewer(self, info: Info) -> Viewer:
        return Viewer.of(info.context.viewer)

    @strawberry.field
    async def rate_limits(
        self, info: Info, organization_id: ID, agent_id: ID | None = None
    ) -> RateLimits:
        context = info.context
        return rate_limits(
            await context.management.rate_limits(context.viewer, organization_id, agent_id)
        )

    @documented("Of an agent or of an organization, not both; of the platform with neither.")
    async def rate_limit_usage(
        self, info: Info, agent_id: ID | None = None, organization_id: ID | None = None
    ) -> RateLimitUsage:
        context = info.context
        return rate_limit_usage(
            await context.management.usage(
                context.viewer, organization_id=organization_id, agent_id=agent_id
            )
        )

    @documented(
        "Of an agent or of an organization, the oldest first, idle spans too; up to 13 months. "
        "Without `from` 48 hours or 31 days, without `to` until now."
    )
    async def usage_history(
        self,
        info: Info,
        agent_id: ID | None = None,
        organization_id: ID | None = None,
        by: UsageBy = UsageBy.DAY,
        since: Annotated[datetime | None, strawberry.argument(name="from")] = None,
        until: Annotated[datetime | None, strawberry.argument(name="to")] = None,
    ) -> list[UsageSpan]:
        context = info.context
        told = await context.listing(
            context.management.usage_history(
                context.viewer,
                organization_id=organization_id,
                agent_id=agent_id,
                by=by.value,
                since=since,
                until=until,
            )
        )
        return [UsageSpan.of(span) for span in told.spans]

    @documented("The newest first.")
    async def rate_limit_changes(
        self,
        info: Info,
        organization_id: ID,
        first: int | None = DEFAULT_PAGE,
        after: str | None = None,
    ) -> Connection[RateLimitChange]:
        context = info.context
        paging = page_of(first, after)
        page = await context.page(
            context.management.changes(context.viewer, organization_id, **paging)
        )
        return connection(page, RateLimitChange.of)

    @documented("Those that the viewer sees: its own, or all of the platform.")
    async def organizations(
        self, info: Info, first: int | None = DEFAULT_PAGE, after: str | None = None
    ) -> Connection[Organization]:
        context = info.context
        page = await context.page(
            context.management.organizations(context.viewer, **page_of(first, after))
        )
        return connection(page, Organization.of)

    @strawberry.field
    async def organization(self, info: Info, id: ID) -> Organization:  # noqa: A002 - the argument's name in the schema
        context = info.context
        return Organization.of(await context.management.organization(context.viewer, id))


@strawberry.type
class Mutation:
    @strawberry.mutation
    async def update_rate_limits(self, info: Info, input: UpdateRateLimitsInput) -> RateLimits:  # noqa: A002 - the argument's name in the schema
        context = info.context
        changed = await context.management.update_rate_limits(
            context.viewer,
            input.organization_id,
            input.agent_id,
            OverrideChange(_given(input.requests_per_minute), _given(input.tokens_per_month)),
            expected_version=input.expected_version,
            via="graphql",
        )
        return rate_limits(changed.value, changed.published)

    @documented("For platform operators.")
    async def create_organization(self, info: Info, name: str) -> Organization:
        context = info.context
        return Organization.of(await context.management.create_organization(context.viewer, name))

    @strawberry.mutation
    async def create_agent(self, info: Info, organization_id: ID, name: str) -> Agent:
        context = info.context
        changed = await context.management.create_agent(context.viewer, organization_id, name)
        return Agent.of(changed.value, published=changed.published)

    @documented(
        "An agent's key names its agent, an operator's its organization, a platform "
        "operator's neither."
    )
    async def issue_key(
        self,
        info: Info,
        role: Role,
        organization_id: ID | None = None,
        agent_id: ID | None = None,
        name: str = "",
    ) -> IssuedKey:
        context = info.context
        changed = await context.management.issue_key(
            context.viewer,
            role=role,
            organization_id=organization_id,
            agent_id=agent_id,
            name=name,
        )
        key = Key.of(changed.value.key, published=changed.published)
        return IssuedKey(key=key, secret=changed.value.secret, published=changed.published)

    @documented("For ever. Revoking a key again changes nothing.")
    async def revoke_key(self, info: Info, id: ID) -> Key:  # noqa: A002 - the argument's name in the schema
        context = info.context
        changed = await context.management.revoke_key(context.viewer, id)
        return Key.of(changed.value, published=changed.published)


def _given(limit: strawberry.Some[BigInt | None] | None) -> int | UnsetType | None:
    return UNSET if limit is None else limit.value


class _OneOperation(SchemaExtension):
    """Of several operations the caller names one: Strawberry would take the first."""

    def on_parse(self) -> Iterator[None]:
        yield
        context = self.execution_context
        document = context.graphql_document
        if document is None or context.context.operation_name is not None:
            return
        if sum(isinstance(found, OperationDefinitionNode) for found in document.definitions) > 1:
            context.pre_execution_errors = [
                GraphQLError("operationName: must name one operation of the document")
            ]


class _Schema(strawberry.Schema):
    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        """Log nothing here: what is a fault of ours is logged where the answer is made."""


schema = _Schema(
    query=Query,
    mutation=Mutation,
    extensions=[
        lambda: MaxTokensLimiter(MAX_TOKENS),
        lambda: AddValidationRules([QueryLimits]),
        _OneOperation,
    ],
    config=StrawberryConfig(scalar_map=SCALARS),  # type: ignore[arg-type] # its keys are any object
)

if __name__ == "__main__":
    sys.stdout.write(f"{schema.as_str()}\n")

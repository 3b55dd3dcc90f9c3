"""What the fields of one GraphQL request share: the use cases, who asks, and bounds on its cost."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from strawberry.dataloader import DataLoader

from graphql_api import model
from graphql_api.errors import BadInput
from graphql_api.management import Management

T = TypeVar("T")

MAX_LISTED = 5_000
"""Items in all the lists of one answer, nested ones included."""
TURNS = 2
"""How many nested fields of one request are asked at once: connections are everybody's."""


class Context:
    """Made anew for each request."""

    def __init__(
        self, management: Management, viewer: model.Viewer, operation_name: str | None = None
    ) -> None:
        self.management = management
        self.viewer = viewer
        self.operation_name = operation_name
        self.rate_limits: DataLoader[tuple[str, str | None], model.RateLimits] = DataLoader(
            self._load_rate_limits
        )
        """By organization and agent (None: the organization itself), all of a level at once."""
        self._turns = asyncio.Semaphore(TURNS)
        self._listed = 0

    async def turn(self, answer: Awaitable[T]) -> T:
        """Ask for a nested field when it is its turn."""
        async with self._turns:
            return await answer

    async def page(self, answer: Awaitable[model.Page[T]]) -> model.Page[T]:
        """Ask for a list. Raises BadInput where the answer as a whole lists too much."""
        page = await self.turn(answer)
        self._count("first", len(page.items))
        return page

    async def listing(self, answer: Awaitable[model.UsageHistory]) -> model.UsageHistory:
        """The same for spans of time."""
        told = await self.turn(answer)
        self._count("from", len(told.spans))
        return told

    def _count(self, field: str, items: int) -> None:
        self._listed += items
        if self._listed > MAX_LISTED:
            raise BadInput(field, f"one answer lists at most {MAX_LISTED} items in all")

    async def _load_rate_limits(
        self, targets: list[tuple[str, str | None]]
    ) -> list[model.RateLimits]:
        return await self.management.rate_limits_of(self.viewer, targets)

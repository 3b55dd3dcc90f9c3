"""Lists in the GraphQL schema: a part at a time, with the cursor of what follows."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import strawberry

from graphql_api import model
from graphql_api.management import DEFAULT_PAGE

N = TypeVar("N")
V = TypeVar("V")


@strawberry.type
class PageInfo:
    has_next_page: bool
    end_cursor: str | None


@strawberry.type(description="A part of a list. `first` is from 1 to 500.")
class Connection(Generic[N]):
    nodes: list[N]
    page_info: PageInfo


def connection(page: model.Page[V], node: Callable[[V], N]) -> Connection[N]:
    """A page of the model, each item turned into a type."""
    return Connection(
        nodes=[node(item) for item in page.items],
        page_info=PageInfo(has_next_page=page.next is not None, end_cursor=page.next),
    )


def page_of(first: int | None, after: str | None) -> dict[str, Any]:
    """How a use case is asked for a page; a `first` of null is its default."""
    return {"first": DEFAULT_PAGE if first is None else first, "after": after}

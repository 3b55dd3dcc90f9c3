"""What is declared of an operation of the REST API, beside the handler that does it.

The routes and /openapi.json are made of the same declarations.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sanic import HTTPResponse

from db.api_keys import Role

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
TAKES_EFFECT = "Ibex-Takes-Effect"
PAGING = ("first", "after")

EVERYONE = (Role.READ_ONLY, Role.ADMIN, Role.PLATFORM)
WRITERS = (Role.ADMIN, Role.PLATFORM)
PLATFORM = (Role.PLATFORM,)

Handler = Callable[[Any], Awaitable[HTTPResponse]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One that may be given in the query."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """What a method of a path does, in words for /openapi.json and as a handler.

    `answer` is the type of the body that is answered, `body` of the one that is sent. `cursor`:
    the pattern of the `after` that a list takes beside `first`. `parameters`: what else its query
    may hold. `is_versioned`: it answers an
    ETag. `is_published`: gateways are told, and the answer says whether they were.
    """

    method: str
    path: str
    summary: str
    handler: Handler
    answer: type
    status: int = 200
    body: Any = None
    roles: tuple[Role, ...] = EVERYONE
    cursor: str = ""
    parameters: tuple[Parameter, ...] = ()
    is_versioned: bool = False
    is_published: bool = False
    has_location: bool = False

    @property
    def media_types(self) -> tuple[str, ...]:
        """In what its body may be sent, if it has one."""
        if self.body is None:
            return ()
        return (MERGE_PATCH, JSON) if self.method == "PATCH" else (JSON,)

    @property
    def is_restricted(self) -> bool:
        """Whether some operators may not."""
        return self.roles != EVERYONE

    @property
    def is_conditional(self) -> bool:
        """Whether it takes If-Match."""
        return self.is_versioned and self.method == "PATCH"


class Operations(list[Operation]):
    """The operations of a module, in the order in which it declares them."""

    def declare(
        self, method: str, path: str, summary: str, **more: Any
    ) -> Callable[[Handler], Handler]:
        """Declare the decorated handler as an operation. `more`: fields of `Operation`."""

        def declared(handler: Handler) -> Handler:
            self.append(Operation(method, path, summary, handler, **more))
            return handler

        return declared

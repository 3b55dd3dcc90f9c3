# ruff: noqa: N818 - the names say what happened
"""Why a use case was refused. The messages are for people, and safe to show to the caller.

Unauthenticated       no key, or none that an operator may use now
Forbidden             the viewer sees it, but may not do this
NotFound              what was named does not exist, or belongs to another organization
BadInput              a value cannot be used: names the field, and what would be accepted
Conflict              it was changed since the version that the caller expected
DatabaseUnavailable   Postgres cannot be reached
LimiterError          the live numbers cannot be read from Redis

After each of them nothing was changed.
"""

from db.errors import Conflict, DatabaseUnavailable, NotFound
from lua.errors import LimiterError

__all__ = [
    "BadInput",
    "Conflict",
    "DatabaseUnavailable",
    "Forbidden",
    "LimiterError",
    "NotFound",
    "Unauthenticated",
]


class BadInput(ValueError):
    """A value cannot be used. `message` says what would be accepted, without quoting the value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Unauthenticated(Exception):
    """Nobody that the management API knows."""


class Forbidden(Exception):
    """The viewer may not do this to what it sees."""

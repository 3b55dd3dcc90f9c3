# ruff: noqa: N818 - the names say what happened
"""Why a use case was refused. The messages are for people, and safe to show to the caller.

BadInput              a value cannot be used: names the field, and what would be accepted
NotFound              what was named does not exist, or belongs to another organization
DatabaseUnavailable   nothing was changed, because Postgres cannot be reached
"""

from db.errors import DatabaseUnavailable, NotFound

__all__ = ["BadInput", "DatabaseUnavailable", "NotFound"]


class BadInput(ValueError):
    """A value cannot be used. `message` says what would be accepted, without quoting the value."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message

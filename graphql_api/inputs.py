"""What callers may send: each function returns the value to use or raises BadInput.

The values come from JSON, GraphQL and command lines, so their types are checked here too.
"""

import re
import unicodedata

from msgspec import UNSET, UnsetType

from db.api_keys import Role
from db.limits import MAX_LIMIT, OverrideChange
from graphql_api.errors import BadInput

MAX_NAME_LENGTH = 200
LONGEST_PAGE = 500
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_CURSOR = "must be a cursor that a page of this list ended with"
_NOT_IN_A_NAME = {"Cc", "Cs", "Zl", "Zp"}
"""Control characters, lone surrogates, and separators of lines and paragraphs."""


def uuid(field: str, value: object) -> str:
    """Accept a UUID in its usual form of 36 characters, in either case."""
    if isinstance(value, str) and _UUID.fullmatch(value):
        return value.lower()
    raise BadInput(field, "must be a UUID, such as 8db83585-fd25-4a63-89fa-957ac5e7fb23")


def name(value: object) -> str:
    """Accept one line of 1 to 200 characters; space around it is dropped."""
    text = label(value)
    if not text:
        raise BadInput("name", "must not be empty")
    return text


def label(value: object) -> str:
    """Accept what `name` accepts, or nothing at all."""
    if not isinstance(value, str):
        raise BadInput("name", "must be a string")
    text = value.strip()
    if len(text) > MAX_NAME_LENGTH:
        raise BadInput("name", f"must have at most {MAX_NAME_LENGTH} characters")
    if any(unicodedata.category(character) in _NOT_IN_A_NAME for character in text):
        raise BadInput("name", "must be one line without control characters")
    return text


def operator_role(value: object) -> Role:
    """Accept the roles of an organization's operators."""
    for role in (Role.ADMIN, Role.READ_ONLY):
        if value == role:
            return role
    raise BadInput("role", "must be admin or read_only")


def role(value: object) -> Role:
    """Accept any role that a key can have."""
    if isinstance(value, str) and value in set(Role):
        return Role(value)
    raise BadInput("role", f"must be one of {', '.join(Role)}")


def version(value: object) -> int | None:
    """Accept a version that an organization can have, or none."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise BadInput("expected_version", "must be a whole number from 1")


def first(value: object) -> int:
    """Accept the length of a page."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LONGEST_PAGE:
        return value
    raise BadInput("first", f"must be a whole number from 1 to {LONGEST_PAGE}")


def size(value: int) -> int:
    """Accept the length of a page of a ranked list."""
    if 1 <= value <= LONGEST_PAGE:
        return value
    raise BadInput("size", f"must be a whole number from 1 to {LONGEST_PAGE}")


def page(value: int) -> int:
    """Accept the number of a page; one past the last is the last."""
    if value >= 1:
        return value
    raise BadInput("page", "must be a whole number from 1")


def id_cursor(value: object) -> str | None:
    """Accept the cursor of a list whose rows have UUIDs, or none."""
    if value is None or (isinstance(value, str) and _UUID.fullmatch(value)):
        return value
    raise BadInput("after", _CURSOR)


def number_cursor(value: object) -> int | None:
    """Accept the cursor of a list whose rows are numbered, or none."""
    if value is None:
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    raise BadInput("after", _CURSOR)


def absent(field: str, value: object, message: str) -> None:
    """Refuse a value where there must be none."""
    if value is not None:
        raise BadInput(field, message)


def override_change(agent_id: str | None, change: OverrideChange) -> OverrideChange:
    """Accept limits in range. The token ceiling is the organization's alone."""
    accepted = OverrideChange(
        _limit("requests_per_minute", change.requests_per_minute),
        _limit("tokens_per_month", change.tokens_per_month),
    )
    if agent_id is not None and accepted.tokens_per_month is not UNSET:
        raise BadInput("tokens_per_month", "is set for an organization, not for an agent")
    return accepted


def _limit(field: str, value: object) -> int | UnsetType | None:
    if value is None or isinstance(value, UnsetType):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_LIMIT:
        return value
    raise BadInput(field, f"must be a whole number from 0 to {MAX_LIMIT}; null inherits")

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
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
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

"""The form for limits: what it shows, what was typed into it, and why it was refused.

What may be set is decided by the use cases, and told in their words at the field.
"""

import re
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from dashboard.contexts import Field, Form
from dashboard.formatting import NO_BREAK, limit
from db.limits import OverrideChange
from graphql_api.errors import BadInput, Conflict
from graphql_api.model import RateLimits

REQUESTS, TOKENS, VERSION = "requests_per_minute", "tokens_per_month", "version"
_EXPECTED = "expected_version"
_OUTDATED = "This form does not say which version of the limits it has shown: load the page again."
_CONFLICT = "Not saved: {error}. What is in force now is told below; saving again replaces it."
_NUMBER = re.compile(r"[0-9]{1,20}")
_GROUPING = str.maketrans("", "", f" \u00a0{NO_BREAK}")
_INHERITED = ("", "inherit", "inherited")


def of_organization(limits: RateLimits, action: str) -> Form:
    """The form of an organization's limits, as they are set."""
    set_here = limits.overrides
    return Form(
        action,
        limits.version,
        (
            _field(
                REQUESTS,
                "Requests per minute",
                set_here.requests_per_minute,
                limits.org_requests_per_minute,
            ),
            _field(
                TOKENS, "Tokens per month", set_here.tokens_per_month, limits.org_tokens_per_month
            ),
        ),
    )


def of_agent(limits: RateLimits, action: str) -> Form:
    """The form of an agent's limit, as it is set."""
    return Form(
        action,
        limits.version,
        (
            _field(
                REQUESTS,
                "Requests per minute",
                limits.overrides.requests_per_minute,
                limits.agent_requests_per_minute,
            ),
        ),
    )


def change(typed: dict[str, str]) -> OverrideChange:
    """What the fields ask for. A text that is no number is left for the use case to refuse."""
    return OverrideChange(
        _wanted(typed[REQUESTS]), _wanted(typed[TOKENS]) if TOKENS in typed else UNSET
    )


def version(typed: dict[str, str]) -> Any:
    """The version that the form has shown. What is none is left for the use case to refuse."""
    text = typed[VERSION]
    return int(text) if _NUMBER.fullmatch(text) else text


def refused(form: Form, typed: dict[str, str], error: Exception) -> Form:
    """The form with what was typed, and the error at its field or, if it has none, on top."""
    named = error.field if isinstance(error, BadInput) else None
    message = error.message if isinstance(error, BadInput) else str(error)
    fields = tuple(
        replace(
            field,
            value=typed.get(field.name, field.value),
            error=message if field.name == named else None,
        )
        for field in form.fields
    )
    if isinstance(error, Conflict):
        return replace(form, fields=fields, error=_CONFLICT.format(error=error))
    if any(field.error for field in fields):
        return replace(form, fields=fields)
    return replace(form, fields=fields, error=_OUTDATED if named == _EXPECTED else str(error))


def _wanted(text: str) -> Any:
    bare = text.translate(_GROUPING)
    if bare.lower() in _INHERITED:
        return None
    return int(bare) if _NUMBER.fullmatch(bare) else text


def _field(name: str, label: str, override: int | None, in_force: int | None) -> Field:
    where = "the platform's default" if override is None else "set here"
    value = "" if override is None else str(override)
    return Field(name, label, value, f"In force: {limit(in_force)}, {where}.")

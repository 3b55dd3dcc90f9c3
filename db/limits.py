"""What a limit is, and how platform defaults and overrides become the limits in force.

Pure: no I/O. Requests are counted per trailing 60 seconds, tokens per UTC calendar month.
"""

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

MAX_LIMIT = 2**53 - 1
"""The largest limit: the last integer that Lua and JavaScript still count exactly."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force for one agent. None: no limit. 0: nothing is admitted."""

    agent_rpm: int | None = None
    org_rpm: int | None = None
    global_rpm: int | None = None
    org_tokens_per_month: int | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """What is set for one organization or one agent. None inherits the platform's default.

    Only an organization has `tokens_per_month`; an agent's is always None.
    """

    requests_per_minute: int | None = None
    tokens_per_month: int | None = None


INHERIT = Override()
"""Nothing is set: everything is inherited."""


def effective(defaults: Limits, org: Override, agent: Override) -> Limits:
    """Lay the overrides of an organization and of one of its agents over the defaults.

    The platform's own limit (`global_rpm`) cannot be overridden.
    """
    return Limits(
        agent_rpm=_first(agent.requests_per_minute, defaults.agent_rpm),
        org_rpm=_first(org.requests_per_minute, defaults.org_rpm),
        global_rpm=defaults.global_rpm,
        org_tokens_per_month=_first(org.tokens_per_month, defaults.org_tokens_per_month),
    )


def _first(override: int | None, default: int | None) -> int | None:
    return default if override is None else override


@dataclass(frozen=True, slots=True)
class OverrideChange:
    """A change of an override. UNSET leaves a limit as it is, None makes it inherited."""

    requests_per_minute: int | UnsetType | None = UNSET
    tokens_per_month: int | UnsetType | None = UNSET


def changed(override: Override, change: OverrideChange) -> Override:
    """Return what an override becomes by a change."""
    return Override(
        requests_per_minute=_given(change.requests_per_minute, override.requests_per_minute),
        tokens_per_month=_given(change.tokens_per_month, override.tokens_per_month),
    )


def _given(change: int | UnsetType | None, current: int | None) -> int | None:
    return current if isinstance(change, UnsetType) else change

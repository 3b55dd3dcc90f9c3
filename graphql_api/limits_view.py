"""The limits of an organization or agent as operators see them: in force, set here, inherited."""

from dataclasses import dataclass
from enum import StrEnum

from db.limits import Limits, Override, effective
from db.rows import Overrides


class Level(StrEnum):
    """Where a limit is set."""

    AGENT = "agent"
    ORGANIZATION = "organization"
    PLATFORM = "platform"


@dataclass(frozen=True, slots=True)
class Sources:
    """For each of the limits in force: where it is set."""

    agent_rpm: Level
    org_rpm: Level
    global_rpm: Level
    org_tokens_per_month: Level


@dataclass(frozen=True, slots=True)
class LimitsView:
    """The limits of an agent, or of an organization (`agent_id` None).

    `limits`: what is in force; for an organization, `agent_rpm` is that of an agent for which
    nothing is set. `override`: what is set for this organization or agent itself.
    """

    org_id: str
    agent_id: str | None
    limits: Limits
    override: Override
    sources: Sources


def limits_view(
    org_id: str, agent_id: str | None, overrides: Overrides, defaults: Limits
) -> LimitsView:
    """Lay overrides over the platform's defaults, and remember which of them won."""
    org, agent = overrides.org, overrides.agent
    return LimitsView(
        org_id=org_id,
        agent_id=agent_id,
        limits=effective(defaults, org, agent),
        override=org if agent_id is None else agent,
        sources=Sources(
            agent_rpm=_source(agent.requests_per_minute, Level.AGENT),
            org_rpm=_source(org.requests_per_minute, Level.ORGANIZATION),
            global_rpm=Level.PLATFORM,
            org_tokens_per_month=_source(org.tokens_per_month, Level.ORGANIZATION),
        ),
    )


def _source(override: int | None, level: Level) -> Level:
    return Level.PLATFORM if override is None else level

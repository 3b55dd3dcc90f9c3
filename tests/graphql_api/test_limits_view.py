from db.limits import INHERIT, Limits, Override
from db.rows import Overrides
from graphql_api.limits_view import Level, LimitsView, Sources, limits_view

DEFAULTS = Limits(agent_rpm=60, org_rpm=600, global_rpm=6000)


def test_agent_sees_what_is_set_here_and_above() -> None:
    """An agent's view has its own limit, and those of organization and platform around it."""
    overrides = Overrides(Override(500, 0), Override(0))

    assert limits_view("org", "agent", overrides, DEFAULTS) == LimitsView(
        org_id="org",
        agent_id="agent",
        limits=Limits(agent_rpm=0, org_rpm=500, global_rpm=6000, org_tokens_per_month=0),
        override=Override(0),
        sources=Sources(
            agent_rpm=Level.AGENT,
            org_rpm=Level.ORGANIZATION,
            global_rpm=Level.PLATFORM,
            org_tokens_per_month=Level.ORGANIZATION,
        ),
    )


def test_organization_that_sets_nothing_inherits_all() -> None:
    """Where nothing is set, every limit comes from the platform, also one that is no limit."""
    view = limits_view("org", None, Overrides(INHERIT, INHERIT), DEFAULTS)

    assert view.limits == DEFAULTS
    assert view.limits.org_tokens_per_month is None
    assert view.override == INHERIT
    assert view.sources == Sources(*[Level.PLATFORM] * 4)


def test_organization_shows_its_own_override() -> None:
    """What is set "here" is the organization's override when no agent was asked for."""
    view = limits_view("org", None, Overrides(Override(5), INHERIT), DEFAULTS)

    assert (view.override, view.sources.org_rpm) == (Override(5), Level.ORGANIZATION)

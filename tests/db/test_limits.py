from dataclasses import FrozenInstanceError

import pytest

from db.limits import INHERIT, Limits, Override, OverrideChange, changed, effective

DEFAULTS = Limits(agent_rpm=60, org_rpm=600, global_rpm=6000, org_tokens_per_month=1_000_000)


def test_nothing_set_inherits_every_default() -> None:
    """Without overrides the limits in force are the platform's defaults."""
    assert effective(DEFAULTS, INHERIT, INHERIT) == DEFAULTS


def test_overrides_replace_their_own_level_only() -> None:
    """An organization's requests do not become its agents', nor the other way round."""
    in_force = effective(DEFAULTS, Override(500, 9), Override(5))

    assert in_force == Limits(agent_rpm=5, org_rpm=500, global_rpm=6000, org_tokens_per_month=9)


def test_zero_is_a_limit_and_not_nothing() -> None:
    """A limit of 0 stays 0: it admits nothing, and never falls back to the default."""
    in_force = effective(DEFAULTS, Override(0, 0), Override(0))

    assert in_force == Limits(agent_rpm=0, org_rpm=0, global_rpm=6000, org_tokens_per_month=0)


def test_no_default_and_no_override_is_no_limit() -> None:
    """Where neither the platform nor the organization sets one, there is no limit."""
    assert effective(Limits(), INHERIT, INHERIT) == Limits(None, None, None, None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (OverrideChange(), Override(10, 100)),
        (OverrideChange(requests_per_minute=None), Override(None, 100)),
        (OverrideChange(requests_per_minute=0), Override(0, 100)),
        (OverrideChange(tokens_per_month=None), Override(10, None)),
        (OverrideChange(20, 200), Override(20, 200)),
    ],
)
def test_absent_leaves_and_null_inherits(change: OverrideChange, expected: Override) -> None:
    """A limit that a change does not name stays; one that it names as null is inherited."""
    assert changed(Override(10, 100), change) == expected


def test_limits_cannot_be_changed_in_place() -> None:
    """Limits are shared between requests, so nobody can alter them."""
    with pytest.raises(FrozenInstanceError):
        DEFAULTS.agent_rpm = 1  # type: ignore[misc]  # what must not work

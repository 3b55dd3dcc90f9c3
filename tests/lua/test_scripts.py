"""What the scripts decide and count, example by example, on every supported server."""

import dataclasses
from typing import Any

import pytest
from script_calls import ORG, START_MS, Ask, Scripts

from lua import keys
from lua.decision import Level

OTHER_ORG = "22222222-2222-4222-8222-222222222222"
LEVELS: tuple[Level, ...] = ("agent", "org", "global", "tokens")
LIMITED_AT = {
    "agent": Ask(agent_rpm=2),
    "org": Ask(org_rpm=2),
    "global": Ask(global_rpm=2),
    "tokens": Ask(ceiling=20, needed=10),
}
ROOMY: dict[str, Any] = {"agent_rpm": 1000, "org_rpm": 1000, "global_rpm": 1000, "ceiling": 1000}


def limited_at(level: Level) -> Ask:
    """A request that only this level limits, to two; the others have room."""
    tight: dict[str, Any] = dataclasses.asdict(LIMITED_AT[level])
    return Ask(**{**tight, **{k: v for k, v in ROOMY.items() if tight[k] < 0}})


@pytest.mark.parametrize("level", LEVELS)
def test_a_denial_writes_nothing_at_any_level(scripts: Scripts, level: Level) -> None:
    """The level that has no room denies by its name; every key stays byte for byte as it was."""
    ask = limited_at(level)
    assert [scripts.admit_one(ask).admitted for _ in range(2)] == [True, True]
    before = scripts.contents()

    denials = [scripts.admit_one(ask), *scripts.admit(ask, ask)]

    assert [(d.admitted, d.level, d.used, d.held) for d in denials] == [
        (False, level, (2, 2, 2), 0)
    ] * 3
    assert scripts.contents() == before


@pytest.mark.parametrize("level", LEVELS)
def test_a_denial_on_an_empty_server_creates_no_key(scripts: Scripts, level: Level) -> None:
    """A limit of 0 admits nothing, at each level, and leaves no trace."""
    nothing: dict[str, Ask] = {
        "agent": Ask(agent_rpm=0),
        "org": Ask(org_rpm=0),
        "global": Ask(global_rpm=0),
        "tokens": Ask(ceiling=0),
    }
    denied = scripts.admit_one(nothing[level])

    assert (denied.admitted, denied.level, denied.used) == (False, level, (0, 0, 0))
    assert denied.retry_after_ms == -1
    assert scripts.contents() == {}


def test_the_most_specific_level_names_the_denial(scripts: Scripts) -> None:
    """Where several levels have no room: agent before organization, platform and tokens."""
    tight: dict[str, Any] = {"agent_rpm": 0, "org_rpm": 0, "global_rpm": 0, "ceiling": 0}
    found = []
    for level in tight.copy():
        found.append(scripts.admit_one(Ask(**tight)).level)
        tight.pop(level)

    assert found == list(LEVELS)


def test_a_limit_lowered_below_its_use_denies_until_enough_has_left(scripts: Scripts) -> None:
    """Five are in the window; a limit of two holds from now on, and says when it will pass."""
    for _ in range(5):
        assert scripts.admit_one(Ask(org_rpm=5)).admitted
        scripts.now_ms += 1000
    lowered = Ask(org_rpm=2)

    denied = scripts.admit_one(lowered)

    assert (denied.level, denied.used) == ("org", (5, 5, 5))
    fourth_leaves_ms = START_MS + 3000 + 61_000
    assert denied.retry_after_ms == fourth_leaves_ms - scripts.now_ms
    scripts.now_ms = fourth_leaves_ms - 1
    assert not scripts.admit_one(lowered).admitted
    scripts.now_ms = fourth_leaves_ms
    assert scripts.admit_one(lowered).admitted


@pytest.mark.parametrize("level", ["agent", "org", "global"])
def test_retry_after_is_the_millisecond_at_which_it_passes(scripts: Scripts, level: Level) -> None:
    """Not one earlier, at each level of requests."""
    ask = limited_at(level)
    scripts.now_ms += 250
    scripts.admit_one(ask)
    scripts.now_ms += 20_000
    scripts.admit_one(ask)
    scripts.now_ms += 7_123

    wait_ms = scripts.admit_one(ask).retry_after_ms

    assert scripts.now_ms + wait_ms == START_MS + 61_000
    scripts.now_ms += wait_ms - 1
    assert scripts.admit_one(ask).level == level
    scripts.now_ms += 1
    assert scripts.admit_one(ask).admitted


def test_retry_after_waits_for_the_slowest_level(scripts: Scripts) -> None:
    """The agent is free again before the organization: only the later moment helps."""
    scripts.admit_one(Ask())
    scripts.now_ms += 30_000
    scripts.admit_one(Ask(agent="a2"))
    denied = scripts.admit_one(Ask(agent_rpm=1, org_rpm=1))

    assert (denied.level, denied.retry_after_ms) == ("agent", 61_000)


def test_waiting_does_not_help_where_tokens_are_short_as_well(scripts: Scripts) -> None:
    """The agent's window frees, the month's ceiling does not: never within the month."""
    scripts.admit_one(Ask(ceiling=10, needed=10))
    denied = scripts.admit_one(Ask(agent_rpm=1, ceiling=10, needed=1))

    assert (denied.level, denied.retry_after_ms) == ("agent", -1)


def test_resets_say_when_requests_leave_the_window(scripts: Scripts) -> None:
    """The first of two admissions frees a place, the second empties the window."""
    assert scripts.requests_used(Ask()) == (0, 0, 0)
    scripts.admit_one(Ask())
    scripts.now_ms += 10_500
    second = scripts.admit_one(Ask(agent="a2"))

    assert second.used == (1, 2, 2)
    assert second.frees_ms == (60_500, 50_500)
    assert second.empty_ms == (60_500, 60_500)


def test_a_full_batch_of_strangers_gets_a_verdict_each(scripts: Scripts) -> None:
    """128 agents of 128 limits, half of them 0: everybody's own answer, and exact sums."""
    asks = [Ask(ORG if i % 4 else OTHER_ORG, f"a{i}", agent_rpm=i % 2) for i in range(128)]

    verdicts = scripts.admit(*asks)

    assert [v.admitted for v in verdicts] == [bool(i % 2) for i in range(128)]
    assert [v.used[0] for v in verdicts] == [i % 2 for i in range(128)]
    assert scripts.requests_used(Ask(agent="idle")) == (0, 64, 64)
    assert scripts.requests_used(Ask(OTHER_ORG, "idle")) == (0, 0, 64)
    assert sum(scripts.settle(*((v, 2) for v in verdicts if v.admitted))) == 64
    assert scripts.month() == (128, 0)


def test_a_batch_is_decided_in_its_order(scripts: Scripts) -> None:
    """The first of the batch take what is left; each sees those before it."""
    asks = [Ask(agent="a1", org_rpm=3), Ask(agent="a2", org_rpm=3)] * 3

    verdicts = scripts.admit(*asks)

    assert [v.used for v in verdicts[:4]] == [(1, 1, 1), (1, 2, 2), (2, 3, 3), (1, 3, 3)]
    assert [v.level for v in verdicts] == [None] * 3 + ["org"] * 3


def test_keys_that_lost_their_expiry_get_it_back_in_the_next_minute(scripts: Scripts) -> None:
    """Every key of the namespace expires again, after one admission and one settling."""
    scripts.settle((scripts.admit_one(Ask(needed=1)), 1))
    scripts.admit_one(Ask(needed=1))
    names = sorted(scripts.contents())
    assert len(names) == 5
    for key in names:
        assert scripts.client.persist(key)
    scripts.now_ms += 60_000

    scripts.settle((scripts.admit_one(Ask(needed=1)), 1))

    assert [scripts.client.pttl(key) > 0 for key in names] == [True] * 5


def test_the_window_frees_by_its_oldest_request_also_when_older_ones_have_left(
    scripts: Scripts,
) -> None:
    """The first has left after 61 s; of the two that remain the older one leaves in 3 s."""
    scripts.admit_one(Ask())
    scripts.now_ms += 5_000
    scripts.admit_one(Ask())
    scripts.now_ms += 58_000

    verdict = scripts.admit_one(Ask())

    assert verdict.used == (2, 2, 2)
    assert verdict.frees_ms == (3_000, 3_000)


def test_a_far_step_back_of_the_clock_takes_the_minutes_with_it(scripts: Scripts) -> None:
    """What was counted under the wrong clock is not left in the series of a ring that restarts."""
    scripts.admit_one(Ask())
    scripts.now_ms += 60_000
    scripts.admit_one(Ask())
    assert scripts.client.hexists(keys.org_ring(ORG), "minutes")
    scripts.now_ms -= 600_000

    assert scripts.admit_one(Ask()).used == (1, 1, 1)
    assert not scripts.client.hexists(keys.org_ring(ORG), "minutes")

"""The window that operators and lists are shown is the one by which the next request is decided."""

import random

import pytest
from charted import RINGS
from script_calls import START_MS, Ask, Scripts

from lua.window import EMPTY, WIDTH, Window, window


def shown(scripts: Scripts) -> Window:
    """The agent's window at the scripts' time."""
    return window(scripts.client.hget(RINGS[0], "seconds"), scripts.now_ms)


def decided(scripts: Scripts) -> Window:
    """What a denial says of it."""
    denied = scripts.admit_one(Ask(agent_rpm=0))
    return Window(denied.used[0], denied.empty_ms[0])


@pytest.mark.parametrize("seed", range(2))
def test_at_any_time_it_is_what_a_denial_reports(scripts: Scripts, seed: int) -> None:
    """To the second in which a request leaves it, and while the clock steps back a little."""
    chance = random.Random(seed)
    for _ in range(60):
        scripts.admit(*[Ask()] * chance.randint(0, 3))
        before = scripts.now_ms
        for step_ms in (0, 999, 1_000, 59_000, 60_000, 60_999, 61_000, 62_000, -1_000, -60_000):
            scripts.now_ms = before + step_ms
            assert shown(scripts) == decided(scripts), step_ms
        scripts.now_ms = before + chance.choice((300, 1_000, 7_000, 30_000, 60_000, 200_000))


def test_a_clock_that_was_far_ahead_is_not_believed(scripts: Scripts) -> None:
    """The limiter starts that ring again, so nothing is in it."""
    scripts.admit(Ask(), Ask())
    scripts.now_ms = START_MS - 61_000

    assert shown(scripts) == decided(scripts) == EMPTY


@pytest.mark.parametrize("packed", [None, b"", b"x" * (WIDTH - 1), b"x" * (WIDTH + 1)])
def test_what_is_no_window_is_empty(packed: bytes | None) -> None:
    """It is nothing that a script has written."""
    assert window(packed, START_MS) == EMPTY

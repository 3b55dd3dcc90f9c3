"""How often Python looks for garbage that refers to itself."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.garbage import look_not_yet, look_seldom


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The collector as it was, for the tests behind these."""
    before = gc.get_threshold()
    yield
    gc.enable()
    gc.set_threshold(*before)
    gc.unfreeze()


class Ring:
    """It refers to itself: nobody's giving it up frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_there_is_passed_over() -> None:
    """What lives when serving begins is not gone through any more, whatever is collected."""
    stays = Ring()
    look_seldom()
    assert gc.get_freeze_count() > 0
    assert not any(it is stays for it in gc.get_objects())


def test_garbage_from_before_is_freed() -> None:
    """What was garbage when serving began is not kept for good."""
    gone = weakref.ref(Ring())
    look_seldom()
    assert gone() is None


def test_nothing_is_looked_for_while_all_is_loaded() -> None:
    """It would take a quarter of the time of a start with a hundred thousand agents."""
    look_not_yet()
    gone = weakref.ref(Ring())
    many = [Ring() for _ in range(200_000)]
    assert gone() is not None
    del many
    look_seldom()
    assert gc.isenabled()
    assert gone() is None


def test_garbage_from_after_is_found() -> None:
    """It is looked for seldom, but it is looked for: rings do not pile up."""
    look_seldom()
    rings = [weakref.ref(Ring()) for _ in range(200_000)]
    assert any(ring() is None for ring in rings)

"""How often Python looks for garbage that refers to itself.

Requests leave next to none: what they make is freed as soon as nobody needs it. But to look, all
that lives is gone through, keys and limits by the hundred thousand, in 70 ms and more. So it is
done seldom, and what is there to stay is passed over.
"""

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 20
"""Additional containers until the young are looked through; rounds until older ones are, too."""


def look_not_yet() -> None:
    """To be called before what stays is loaded: with every round there would be more to go through,
    and nothing to find.
    """
    gc.disable()


def look_seldom() -> None:
    """To be called once, when everything that stays is loaded."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)

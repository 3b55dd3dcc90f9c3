"""How numbers, limits and times are written on pages: one way for each."""

import re
from datetime import datetime

_KEY = re.compile(r"key:([0-9a-f]{8})[0-9a-f-]*(?: (.*))?", re.DOTALL)

NO_BREAK = "\u202f"
"""The narrow space between groups of digits; lines do not break there."""


def grouped(number: int) -> str:
    """Write a whole number in groups of three digits."""
    return f"{number:,}".replace(",", NO_BREAK)


def known(number: int | None) -> str:
    """Write a live number, or that it is not known."""
    return "unknown" if number is None else grouped(number)


def limit(number: int | None) -> str:
    """Write a limit: None is none, and 0 admits nothing."""
    if number is None:
        return "no limit"
    return "0: nothing is admitted" if number == 0 else grouped(number)


def iso(moment: datetime) -> str:
    """A time in UTC as <time datetime> takes it, whole seconds."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def clock(moment: datetime) -> str:
    """The time of day in UTC, to the second."""
    return f"{moment:%H:%M:%S} UTC"


def day_and_time(moment: datetime) -> str:
    """Date and time in UTC, to the minute."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def day(moment: datetime) -> str:
    """The date in UTC, such as 24 December."""
    return f"{moment.day} {moment:%B}"


def overridden(number: int | None) -> str:
    """Write what is set for somebody: None is inherited."""
    return "inherited" if number is None else grouped(number)


def author(actor: str) -> str:
    """Write who made a change: a key by its name and the beginning of its id."""
    found = _KEY.fullmatch(actor)
    if found is None:
        return actor
    return f"{found[2]} (key {found[1]})" if found[2] else f"key {found[1]}"

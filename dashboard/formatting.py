"""How numbers, limits and times are written on pages: one way for each."""

from datetime import datetime

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

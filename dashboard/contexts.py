"""What each page is made of: everything that its template uses, and nothing else.

A template gets the fields of its context by their names. Live numbers are None where they are not
known, because Redis cannot be asked and this worker has not read them lately.
"""

from dataclasses import dataclass
from typing import Any

from graphql_api.model import Viewer


@dataclass(frozen=True, slots=True)
class Crumb:
    """A step of the way from the first page to this one."""

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What came of something that the operator did. `is_problem`: it was refused or is late."""

    text: str
    is_problem: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """What is around every page.

    `title` is the page's heading too. `viewer` None: nobody has signed in. `live` is where the
    page's script asks for newer numbers, None for pages that stand. `refresh_s`: after so long
    the browser asks for the page again.
    """

    title: str
    viewer: Viewer | None = None
    crumbs: tuple[Crumb, ...] = ()
    live: str | None = None
    notice: Notice | None = None
    refresh_s: int | None = None


@dataclass(frozen=True, slots=True)
class Error:
    """Something that cannot be shown or done. `request_id` finds it in the log."""

    frame: Frame
    status: int
    message: str
    request_id: str


Figure = dict[str, Any]
"""A chart as plain Plotly JSON."""

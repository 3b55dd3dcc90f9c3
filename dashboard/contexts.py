"""What each page is made of: everything that its template uses, and nothing else.

A template gets the fields of its context by their names. Live numbers are None where they are not
known: Redis cannot be asked, and this worker has not read them lately.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.projection import Projection
from graphql_api.model import (
    DeniedCounts,
    KeyView,
    UsagePoint,
    Viewer,
)

Figure = dict[str, Any]
"""A chart as plain Plotly JSON."""

NEAR = 0.75
"""From this share of a limit on, its bar warns."""


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
    page's script asks for newer numbers, with the page's own query; None for pages that stand.
    `refresh_s`: after so long the browser asks for the page again.
    """

    title: str
    viewer: Viewer | None = None
    crumbs: tuple[Crumb, ...] = ()
    live: str | None = None
    notice: Notice | None = None
    refresh_s: int | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """What cannot be asked now, `redis` or `postgres`. `as_of`: the time of the numbers that are
    shown instead, None where there are none.
    """

    missing: str
    as_of: datetime | None


@dataclass(frozen=True, slots=True)
class Meter:
    """What is used of a limit. `limit` None: there is none."""

    used: int | None
    limit: int | None

    @property
    def share(self) -> float | None:
        """Of the limit, from 0 to 1; None without a limit or where the use is not known."""
        if self.used is None or self.limit is None:
            return None
        return min(self.used / self.limit, 1.0) if self.limit else 1.0

    @property
    def excess(self) -> int:
        """By how much the use is over a limit that was lowered meanwhile."""
        return max((self.used or 0) - self.limit, 0) if self.limit is not None else 0

    @property
    def state(self) -> str:
        """`free`, `near` or `full`, as the bar is colored."""
        share = self.share
        if share is None or share < NEAR:
            return "free"
        return "near" if share < 1 else "full"


@dataclass(frozen=True, slots=True)
class Hour:
    """The last 60 minutes, the running one included, added up. `estimated` is part of `tokens`."""

    requests: int
    tokens: int
    denied: DeniedCounts
    open: int
    estimated: int

    @property
    def denied_in_all(self) -> int:
        """Denied by any level."""
        denied = self.denied
        return denied.agent + denied.org + denied.platform + denied.tokens


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and the numbers that it shows. `name` is `requests` or `tokens`, `words` say what
    the picture shows.
    """

    name: str
    caption: str
    words: str
    figure: Figure
    points: tuple[UsagePoint, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table of organizations or agents, the one under the highest pressure first.

    `tokens` is an organization's. `usage` is an agent's, for its sparkline. `denied` are those of
    the last hour.
    """

    name: str
    url: str
    requests: Meter
    tokens: Meter | None
    hour: Hour | None
    denied: DeniedCounts | None
    in_flight: int | None
    usage: tuple[UsagePoint, ...]


@dataclass(frozen=True, slots=True)
class Pager:
    """Where in a list a page is, and the URLs of its neighbors; None: there is none."""

    words: str
    previous: str | None
    next: str | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form for limits. `value` is what is typed in, "" inherits. `now` says what is
    in force. `error` is why it was refused.
    """

    name: str
    label: str
    value: str
    now: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """The form for limits. `version` is that of the limits that it shows."""

    action: str
    version: int
    fields: tuple[Field, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit that applies to an agent, and where it is set."""

    name: str
    limit: int | None
    source: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All organizations, for platform operators."""

    frame: Frame
    outage: Outage | None
    as_of: datetime | None
    requests: Meter
    hour: Hour | None
    requests_chart: Chart
    lines: tuple[Line, ...]
    pager: Pager


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization. `example` is the call to make where there are no numbers yet; `form` is
    None for keys that only read.
    """

    frame: Frame
    outage: Outage | None
    as_of: datetime | None
    requests: Meter
    tokens: Meter
    held: int | None
    projection: Projection | None
    hour: Hour | None
    in_flight: int | None
    example: str | None
    requests_chart: Chart
    tokens_chart: Chart
    lines: tuple[Line, ...]
    pager: Pager
    organization_id: str
    form: Form | None
    history_url: str
    changes_url: str


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of an organization, and its keys without their secrets."""

    frame: Frame
    outage: Outage | None
    as_of: datetime | None
    requests: Meter
    hour: Hour | None
    example: str | None
    requests_chart: Chart
    tokens_chart: Chart
    rules: tuple[Rule, ...]
    keys: tuple[KeyView, ...]
    agent_id: str
    form: Form | None
    history_url: str

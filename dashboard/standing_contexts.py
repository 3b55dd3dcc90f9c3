"""What the pages without live numbers are made of, as contexts.py says."""

from dataclasses import dataclass

from dashboard.contexts import Figure, Frame
from db.ledger import UsageSpan
from graphql_api.model import RateLimitChangeView


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a limit. `name` is whose limit it is, `url` its page, `field` which limit."""

    change: RateLimitChangeView
    who: str
    name: str
    url: str
    field: str


@dataclass(frozen=True, slots=True)
class Changes:
    """Who changed which limits of an organization and its agents, the newest first.

    `newest` and `older` are URLs of other parts of the list; None: there is none.
    """

    frame: Frame
    name: str
    changes: tuple[Change, ...]
    newest: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class History:
    """Hours or days of an organization or agent, the oldest first. `choices` are the values that
    `by` has, each with its words and its URL.
    """

    frame: Frame
    name: str
    by: str
    choices: tuple[tuple[str, str, str], ...]
    spans: tuple[UsageSpan, ...]
    requests: Figure
    tokens: Figure


@dataclass(frozen=True, slots=True)
class SignIn:
    """The form for a key. `next`: the page that is shown then; `problem`: why the last key was
    refused; `in_the_clear`: a browser would not keep the session.
    """

    frame: Frame
    next: str
    problem: str | None
    in_the_clear: bool


@dataclass(frozen=True, slots=True)
class Error:
    """Something that cannot be shown or done. `request_id` finds it in the log."""

    frame: Frame
    status: int
    message: str
    request_id: str

"""What the pages are served with."""

from dataclasses import dataclass

from dashboard.session import Sessions
from graphql_api.management import Management


@dataclass(frozen=True, slots=True)
class Parts:
    """The use cases, and who has signed in."""

    management: Management
    sessions: Sessions

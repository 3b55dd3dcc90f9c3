"""What each organization has used this month at least, as far as this process has seen.

A counter that comes back lower, because Redis lost its data or was restored from older ones, is
raised by this before anything is decided or settled by it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

_NONE = "0000-00"


def month_of(now_ms: int) -> str:
    """The UTC month of a Unix time, as the scripts name it: `2026-11`."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m")


class KnownMonth:
    """Tokens by organization, all of one UTC month: the newest that was heard of."""

    def __init__(self) -> None:
        self.name = _NONE
        self._begins_ms = 0
        self._ends_ms = 0
        self._tokens: dict[str, int] = {}

    def of(self, org_id: str) -> int:
        """What it has used at least; 0 where nothing is known."""
        return self._tokens.get(org_id, 0)

    def all(self) -> dict[str, int]:
        """The same of every organization."""
        return dict(self._tokens)

    def note(self, now_ms: int, org_id: str, used: int) -> None:
        """A script said so at `now_ms` (Unix ms, of Redis)."""
        if not self._begins_ms <= now_ms < self._ends_ms:
            self._turn(month_of(now_ms))
        if used > self._tokens.get(org_id, 0):
            self._tokens[org_id] = used

    def learn(self, month: str, tokens: Mapping[str, int]) -> None:
        """Somebody else has written it down. Nothing is known of a month that has passed."""
        if month > self.name:
            self._turn(month)
        if month == self.name:
            for org_id, used in tokens.items():
                self._tokens[org_id] = max(used, self._tokens.get(org_id, 0))

    def _turn(self, month: str) -> None:
        begins = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        ends = begins.replace(year=begins.year + begins.month // 12, month=begins.month % 12 + 1)
        self.name = month
        self._begins_ms = int(begins.timestamp()) * 1000
        self._ends_ms = int(ends.timestamp()) * 1000
        self._tokens.clear()

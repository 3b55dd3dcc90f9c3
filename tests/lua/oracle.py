"""What the scripts must do, in plain Python: an exact log of every admission, nothing packed."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

WINDOW_S = 60
STEP_BACK_S = 60
HOUR_MINUTES = 60
NEVER = None


def month_of(now_ms: int) -> str:
    """The UTC month of a Unix time, as `2026-11`."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m")


@dataclass
class Ring:
    """One level's window: the second of every admission since the key was (re)started."""

    newest: int | None = None
    seconds: list[int] = field(default_factory=list)
    minutes: dict[int, int] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)

    def at(self, now_ms: int) -> int:
        """The second in which the ring counts; a far step back of the clock starts it again."""
        now_s = now_ms // 1000
        if self.newest is None or now_s >= self.newest:
            return now_s
        return self.newest if self.newest - now_s <= STEP_BACK_S else now_s

    def used(self, now_ms: int) -> int:
        """Admissions in the trailing 60 s, the edge second in full."""
        second = self.at(now_ms)
        if self.newest is not None and second < self.newest:
            return 0
        return sum(second - WINDOW_S <= then <= second for then in self.seconds)

    def count(self, now_ms: int) -> None:
        """Count one admission."""
        second = self.at(now_ms)
        if self.newest is not None and second < self.newest:
            self.seconds.clear()
            self.minutes.clear()
            self.tokens.clear()
        self.newest = second
        self.seconds.append(second)
        self.minutes[second // 60] = self.minutes.get(second // 60, 0) + 1

    def add_tokens(self, now_ms: int, tokens: int) -> None:
        """Add settled tokens to the minute; one that is an hour back starts the series again."""
        minute = now_ms // 60_000
        if self.tokens and max(self.tokens) - minute >= HOUR_MINUTES:
            self.tokens.clear()
        self.tokens[minute] = self.tokens.get(minute, 0) + tokens


@dataclass
class Held:
    """One reservation. `counted` once its usage is in the month; `lost` where Redis forgot it, and
    `unheld` where only the month that held its tokens is gone.
    """

    member: str
    org: str
    agent: str
    admitted_ms: int
    tokens: int
    lease_end: int
    pending: bool = True
    counted: bool = False
    lost: bool = False
    unheld: bool = False


@dataclass
class Request:
    """What one request asks: -1 = no limit."""

    org: str
    agent: str
    limits: tuple[int, int, int]
    ceiling: int
    needed: int
    extra: int


@dataclass
class Verdict:
    """What the oracle expects of one request."""

    level: int
    used: tuple[int, int, int]
    retry_after_ms: int | None
    held: int


class Oracle:
    """All levels together."""

    def __init__(self) -> None:
        self.rings: dict[str, Ring] = {}
        self.used: dict[tuple[str, str], int] = {}
        self.held: list[Held] = []

    def ring(self, name: str) -> Ring:
        """The ring of that name, empty if it was never counted."""
        return self.rings.setdefault(name, Ring())

    def levels(self, request: Request) -> list[tuple[Ring, int]]:
        """Agent, organization, platform: each ring with its limit."""
        names = (f"{request.org}/{request.agent}", request.org, "global")
        return [(self.ring(name), limit) for name, limit in zip(names, request.limits, strict=True)]

    def tokens(self, org: str, now_ms: int) -> int:
        """Used and held in the running month, lapsed leases released."""
        month = month_of(now_ms)
        return self.used.get((org, month), 0) + sum(
            held.tokens
            for held in self.held
            if held.org == org
            and held.pending
            and not held.lost
            and not held.unheld
            and held.lease_end > now_ms
            and month_of(held.admitted_ms) == month
        )

    def denied_by(self, request: Request, now_ms: int) -> int:
        """0 = would be admitted, else the most specific level without room."""
        for level, (ring, limit) in enumerate(self.levels(request), 1):
            if 0 <= limit <= ring.used(now_ms):
                return level
        room = request.ceiling - self.tokens(request.org, now_ms)
        return 4 if request.ceiling >= 0 and room < max(request.needed, 1) else 0

    def admit(self, request: Request, now_ms: int, lease_ms: int) -> Verdict:
        """Decide and count one request."""
        level = self.denied_by(request, now_ms)
        held = 0
        retry: int | None = 0
        if level:
            retry = self._retry_after(request, now_ms)
        else:
            for ring, _ in self.levels(request):
                ring.count(now_ms)
            room = request.ceiling - self.tokens(request.org, now_ms)
            held = request.needed + request.extra
            if request.ceiling >= 0:
                held = min(held, max(request.needed, room))
            self.held.append(Held("", request.org, request.agent, now_ms, held, now_ms + lease_ms))
        agent, org, platform = (ring.used(now_ms) for ring, _ in self.levels(request))
        return Verdict(level, (agent, org, platform), retry, held)

    def _retry_after(self, request: Request, now_ms: int) -> int | None:
        room = request.ceiling - self.tokens(request.org, now_ms)
        if request.ceiling >= 0 and room < max(request.needed, 1):
            return NEVER
        waits = [0]
        for ring, limit in self.levels(request):
            if not 0 <= limit <= ring.used(now_ms):
                continue
            if limit == 0:
                return NEVER
            waits.append(self._passes_in(ring, limit, now_ms))
        return max(waits)

    @staticmethod
    def _passes_in(ring: Ring, limit: int, now_ms: int) -> int:
        second = ring.at(now_ms)
        for later in range(second + 1, second + WINDOW_S + 2):
            if sum(later - WINDOW_S <= then <= later for then in ring.seconds) < limit:
                return later * 1000 - now_ms
        raise AssertionError("a window is empty after 61 s")

    def settle(self, held: Held, now_ms: int, tokens: int) -> None:
        """Count what was really used, once, in the month of the admission."""
        held.pending = False
        held.counted = True
        month = month_of(held.admitted_ms or now_ms)
        self.used[held.org, month] = self.used.get((held.org, month), 0) + tokens
        if tokens:
            for name in (f"{held.org}/{held.agent}", held.org, "global"):
                self.ring(name).add_tokens(now_ms, tokens)

    def lose_everything(self) -> None:
        """Redis lost its data: counters restart, what was counted is gone with them."""
        self.rings.clear()
        self.used.clear()
        for held in self.held:
            held.lost = True
            held.counted = False

    def lose_month(self, org: str) -> None:
        """The organization's month is gone, and with it what was used and held there."""
        self.used = {key: tokens for key, tokens in self.used.items() if key[0] != org}
        for held in self.held:
            held.unheld = held.unheld or held.org == org

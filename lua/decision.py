"""The words between the proxy and whatever limits it: subject, decision, reservation, limiter."""

from typing import Literal, Protocol

import msgspec

from lua import keys

Level = Literal["agent", "org", "global", "tokens"]
LEVELS: tuple[Level | None, ...] = (None, "agent", "org", "global", "tokens")
NO_LIMIT = -1


class Subject(msgspec.Struct, frozen=True, gc=False):
    """Who is limited, and by what. Limits are requests per 60 s and tokens per UTC month;
    None = no limit, 0 = nothing is admitted. The rest is prepared for the wire.
    """

    org_id: str
    agent_id: str
    agent_rpm: int | None
    org_rpm: int | None
    global_rpm: int | None
    ceiling: int | None
    agent_key: bytes
    org_keys: tuple[bytes, bytes, bytes]
    limit_args: tuple[int, int, int, int]

    @classmethod
    def of(
        cls,
        ids: tuple[str, str],
        rpm: tuple[int | None, int | None, int | None],
        ceiling: int | None,
    ) -> "Subject":
        """`ids` are organization and agent; `rpm` agent, organization, platform."""
        org_id, agent_id = ids
        limits = tuple(NO_LIMIT if limit is None else limit for limit in (*rpm, ceiling))
        return cls(
            org_id,
            agent_id,
            *rpm,
            ceiling,
            keys.agent_ring(org_id, agent_id).encode(),
            (
                keys.org_ring(org_id).encode(),
                keys.month_tokens(org_id).encode(),
                keys.inflight(org_id).encode(),
            ),
            limits,  # type: ignore[arg-type]  # four of them
        )


class Reservation:
    """Tokens held for one request until it is settled. `member` names it in the in-flight set;
    until a verdict is known it says that nothing was admitted and nothing is held.
    """

    __slots__ = ("id", "member", "settled", "subject")

    def __init__(self, subject: Subject, reservation_id: str) -> None:
        self.subject = subject
        self.id = reservation_id
        self.member = f"{reservation_id}:0:0"
        self.settled = False

    @property
    def lost_member(self) -> str:
        """What names it where nobody knows whether it was admitted."""
        return f"{self.id}:?"

    def admit(self, admitted_ms: int, held: int) -> None:
        """Adopt the verdict, also one that came after the deadline."""
        self.member = f"{self.id}:{admitted_ms}:{held}"


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Admitted or denied, and the numbers behind it, all as of `now_ms` (Unix ms).

    `is_open` means admitted without a decision: the limiter gave no answer, the numbers are zero.
    `level` is the one that denied. `*_used` count the trailing 60 s, this request included;
    `tokens_used` and `tokens_held` the month. `retry_after_ms` is when the request would pass; None
    where waiting does not help within the month. `*_frees_ms` is when a used request leaves the
    window next, `*_reset_ms` when all have left.
    """

    subject: Subject
    reservation: Reservation
    admitted: bool
    is_open: bool = False
    now_ms: int = 0
    level: Level | None = None
    agent_used: int = 0
    org_used: int = 0
    global_used: int = 0
    tokens_used: int = 0
    tokens_held: int = 0
    retry_after_ms: int | None = 0
    agent_frees_ms: int = 0
    org_frees_ms: int = 0
    agent_reset_ms: int = 0
    org_reset_ms: int = 0


class Limiter(Protocol):
    """What the proxy knows of limiting. A denial is a value; admit() never raises for an outage."""

    async def admit(self, subject: Subject, needed: int, extra: int) -> Decision:
        """Decide one request that will use `needed` tokens, and may use `extra` more."""

    def settle(self, reservation: Reservation, tokens: int, *, is_estimate: bool = False) -> None:
        """Replace the reservation by the tokens really used. Returns at once; counts once.

        `is_estimate`: some of them were not reported.
        """


class Gate(Protocol):
    """Whether Redis is asked at all; told how each call ended."""

    @property
    def is_open(self) -> bool:
        """True: do not ask."""

    def succeeded(self) -> None:
        """A call was answered in time."""

    def failed(self, reason: str) -> None:
        """A call was not answered, or not in time."""

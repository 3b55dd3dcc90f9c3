"""Who has signed in. A session is a random token in a cookie and an entry in Redis by its hash.

It ends after eight hours without a request, after seven days in any case, at sign-out, and at once
when the operator's key is revoked: Postgres is asked for every request.

Neither server's outage signs anybody out. A worker trusts a session that it has found before while
Redis cannot be asked, and takes a key for live for one more minute while Postgres cannot be. A
sign-out during Redis' outage is known to the worker that was told, and to the browser.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import structlog
from sanic import Request

from dashboard import session_cookie
from dashboard.patience import patiently
from graphql_api.auth import Authenticator
from graphql_api.errors import DatabaseUnavailable, LimiterError
from graphql_api.model import Viewer
from lua.sessions import Session, SessionStore

T = TypeVar("T")

IDLE_S = 8 * 3600
LONGEST_S = 7 * 24 * 3600
UNCHECKED_KEY_S = 60
"""So long a key that was live is taken for live while Postgres cannot be asked."""
REMEMBERED = 1_000
"""So many sessions a worker remembers, and as many that have ended."""
TOKEN_BYTES = 32

log = structlog.get_logger("ibex.dashboard")


@dataclass(frozen=True, slots=True)
class _Known:
    """A session as it was last found. Times in Unix seconds: its last request, its key's check."""

    session: Session
    viewer: Viewer
    used_s: float
    checked_s: float


class Sessions:
    """The sessions of all operators, as one worker sees them. `clock` tells Unix seconds."""

    def __init__(
        self,
        store: SessionStore,
        authenticator: Authenticator,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def viewer(self, request: Request) -> Viewer | None:
        """Return who has signed in, None for nobody.

        Raises LimiterError or DatabaseUnavailable where that cannot be known.
        """
        token = session_cookie.token(request)
        if token is None:
            return None
        session = await self._find(token)
        if session is None:
            self._known.pop(token, None)
            return None
        viewer = None if self._is_over(session) else await self._holder(token, session)
        if viewer is None or token in self._ended:
            await self._end(token)
            return None
        return viewer

    async def sign_in(self, request: Request, key: str) -> str:
        """Return the token of a new session. The one that the request carries ends.

        Raises Unauthenticated, DatabaseUnavailable or LimiterError.
        """
        viewer = await patiently(self._authenticator.viewer_of_key(key))
        token = secrets.token_urlsafe(TOKEN_BYTES)
        now = self._clock()
        session = Session(UUID(viewer.key_id), int(now * 1000))
        await self._store.put(token, session, IDLE_S * 1000)
        _put(self._known, token, _Known(session, viewer, now, now))
        if before := session_cookie.token(request):
            await self._end(before)
        log.info("operator signed in", key_id=viewer.key_id)
        return token

    async def sign_out(self, request: Request) -> bool:
        """End the request's session. False: Redis could not be told, so only this worker knows."""
        token = session_cookie.token(request)
        return token is None or await self._end(token)

    async def _find(self, token: str) -> Session | None:
        """The session as Redis has it, or as it was last found where Redis cannot be asked."""
        try:
            return await self._store.find(token, IDLE_S * 1000)
        except LimiterError:
            if token in self._ended:
                return None
            known = self._known.get(token)
            if known is None:
                raise
            return known.session if self._clock() - known.used_s < IDLE_S else None

    async def _holder(self, token: str, session: Session) -> Viewer | None:
        """Whose session it is, as Postgres has it, or as it had it within the last minute."""
        now = self._clock()
        try:
            viewer = await patiently(self._authenticator.viewer_of_id(str(session.key_id)))
        except DatabaseUnavailable:
            known = self._known.get(token)
            if known is None or now - known.checked_s >= UNCHECKED_KEY_S:
                raise
            return known.viewer
        if viewer is not None:
            _put(self._known, token, _Known(session, viewer, now, now))
        return viewer

    def _is_over(self, session: Session) -> bool:
        return self._clock() * 1000 - session.created_ms >= LONGEST_S * 1000

    async def _end(self, token: str) -> bool:
        """Whether it has ended for all workers; for this one it has."""
        self._known.pop(token, None)
        _put(self._ended, token, None)
        try:
            await self._store.delete(token)
        except LimiterError:
            return False
        return True


def _put(memory: OrderedDict[str, T], token: str, what: T) -> None:
    """The newest last; the oldest makes room."""
    memory[token] = what
    memory.move_to_end(token)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)

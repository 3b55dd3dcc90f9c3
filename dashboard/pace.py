"""Slows down those who try many keys: the more of a client's attempts failed, the longer the next
one waits before its key is looked at.

An attempt is counted before it waits, so attempts in parallel wait longer and longer too. A correct
key takes back its own attempt only. Nobody is locked out: a wait is bounded, and failures are
forgotten. What is bounded too is how many wait at once; who comes then is asked to come later.
"""

import asyncio
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from math import ceil

from sanic import Request

from graphql_api.errors import LimiterError
from lua.sessions import SessionStore

DELAYS_S = (0.0, 0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""What the first attempts of a client wait, and as the last of these every further one."""
FORGOTTEN_AFTER_S = 900
"""Without an attempt."""
WAITING = 64
WAITING_OF_ONE = 8
REMEMBERED = 1_000
"""Clients whose attempts a worker counts itself, for the time when Redis cannot be asked."""
_IPV6_SITE = 64


class TooManyAttempts(Exception):  # noqa: N818 - the name says what happened
    """Too many attempts wait already. `retry_after_s`: when some of them will be done."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too many sign-ins wait already")
        self.retry_after_s = retry_after_s


class Pace:
    """The attempts of all workers; of this one alone while Redis cannot be asked."""

    def __init__(
        self,
        store: SessionStore,
        *,
        trusted_proxies: int = 0,
        delays_s: Sequence[float] = DELAYS_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._trusted_proxies = trusted_proxies
        self._delays_s = delays_s
        self._clock = clock
        self._own: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._waiting: Counter[str] = Counter()

    async def attempt(self, request: Request) -> None:
        """Count an attempt and wait as long as it has to. Raises TooManyAttempts."""
        client = self.client(request)
        # Less than none have failed where Redis has lost an attempt that was then taken back.
        before = max(0, await self._add(client, 1) - 1)
        delay_s = self._delays_s[min(before, len(self._delays_s) - 1)]
        if not delay_s:
            return
        if self._waiting.total() >= WAITING or self._waiting[client] >= WAITING_OF_ONE:
            raise TooManyAttempts(ceil(delay_s))
        self._waiting[client] += 1
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]

    async def take_back(self, request: Request) -> None:
        """The attempt was none: its key was correct, or could not be looked up."""
        await self._add(self.client(request), -1)

    def client(self, request: Request) -> str:
        """Return whose attempts it counts with; see `client_of`."""
        forwarded = ",".join(request.headers.getall("x-forwarded-for", []))
        return client_of(request.ip, forwarded, self._trusted_proxies)

    async def _add(self, client: str, count: int) -> int:
        try:
            attempts = await self._store.add_attempts(client, count, FORGOTTEN_AFTER_S * 1000)
        except LimiterError:
            known, until = self._own.get(client, (0, 0.0))
            attempts = count + (known if self._clock() < until else 0)
        self._own[client] = (attempts, self._clock() + FORGOTTEN_AFTER_S)
        self._own.move_to_end(client)
        if len(self._own) > REMEMBERED:
            self._own.popitem(last=False)
        return attempts


def client_of(peer: str, forwarded_for: str, trusted_proxies: int) -> str:
    """Whose attempts count together: an IPv4 address, or an IPv6 site (a client has a /64).

    Behind proxies it is the address that the outermost of the trusted ones saw; what stands
    further left in X-Forwarded-For is the client's word.
    """
    address = peer
    if trusted_proxies:
        seen = forwarded_for.split(",")[-trusted_proxies:]
        address = _without_port(seen[0].strip()) or peer
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip.packed, _IPV6_SITE), strict=False))
    return str(ip)


def _without_port(address: str) -> str:
    """Some proxies write 192.0.2.1:4711 or [2001:db8::1]:4711."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address

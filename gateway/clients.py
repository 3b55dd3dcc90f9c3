"""How many clients may be connected to one process, so that enough descriptors are left.

A process without a free descriptor reaches no upstream, no Redis and no Postgres: those who merely
sit on connections would take the service from everybody. So they are refused before that.
"""

import resource
from contextlib import suppress
from typing import Any

import structlog

from gateway.http1 import StrictProtocol

MOST = "MOST_CLIENTS"
"""The app's configuration of how many connections of clients a process keeps."""

_LARGEST_RESERVE = 1024
_ENOUGH = 1 << 20  # descriptors: more would only make tables larger where there is no limit

log = structlog.get_logger("ibex.gateway")


def raise_descriptor_limit() -> int:
    """Take what the system grants this process, and return how many descriptors that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    with suppress(ValueError, OSError):  # macOS has a lower limit than the one that it tells
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def most(descriptors: int) -> int:
    """Connections of clients that so many descriptors allow: a quarter, up to 1,024, stays free."""
    return descriptors - min(_LARGEST_RESERVE, descriptors // 4)


class BoundedProtocol(StrictProtocol):
    """A connection that is closed at once where there are too many."""

    __slots__ = ()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[no-untyped-call]
        allowed = self.app.config[MOST]
        if len(self.connections) > allowed:
            transport.abort()
            if not getattr(self.app.ctx, "is_crowded", False):
                log.warning("too many clients: new connections are closed", most=allowed)
            self.app.ctx.is_crowded = True
        elif len(self.connections) < allowed // 2:
            self.app.ctx.is_crowded = False

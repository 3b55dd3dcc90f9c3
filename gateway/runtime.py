"""What one worker is made of: opened before it serves, closed in the order that loses nothing."""

from functools import partial
from pathlib import Path

import structlog

from dashboard.pace import Pace
from dashboard.session import Sessions
from db.connection import disconnect
from db.repository import Repository, connect
from gateway.breaker import Breaker
from gateway.config import Config
from gateway.copier import Copier
from gateway.garbage import look_not_yet, look_seldom
from gateway.journal import Journal
from gateway.metrics import Metrics
from gateway.numbers import Numbers
from gateway.proxy import Proxy
from gateway.settings import Settings
from gateway.upstream import UpstreamClient, new_transport
from graphql_api.auth import Authenticator
from graphql_api.management import Management
from lua import connection as redis
from lua import keys
from lua.channel import changes, publish
from lua.copying import Counters
from lua.errors import LimiterError
from lua.limiter import LuaLimiter
from lua.recorder import Recorder
from lua.scripts import answers_writes
from lua.sessions import SessionStore
from lua.usage import LiveNumbers

ANSWER_LOST_S = 1.0
"""After this long an answer of Redis is not waited for any more, and its connection dropped."""
SUBSCRIPTION_S = 5.0
DATABASE_POOL = 4
FLUSH_S = 3.0
RECORD_S = 1.0
COPY_S = 2.0
DISCONNECT_S = 1.0

log = structlog.get_logger("ibex.gateway")


class Runtime:
    """Pools, limiter, snapshot and proxy of one worker process."""

    def __init__(self, settings: Settings, workers: Path | None = None) -> None:
        """Wire everything; nothing is connected yet. To be called while the event loop runs.

        `workers` is the folder in which several workers tell each other their numbers.
        """
        address = redis.RedisAddress(
            settings.redis_url, settings.redis_ca_file, tls_verify=settings.redis_tls_verify
        )
        deadline_s = settings.limiter_deadline_ms / 1000
        self.settings = settings
        self.is_draining = False
        self._address = address
        self.redis = redis.connect(address, timeout_s=ANSWER_LOST_S)
        self._prober = redis.connect(address, timeout_s=deadline_s)
        self._subscriber = redis.connect(address, timeout_s=SUBSCRIPTION_S)
        self.breaker = Breaker(partial(answers_writes, self._prober, keys.PROBE))
        self.limiter = LuaLimiter(
            self.redis, self.breaker, deadline_s=deadline_s, lease_s=settings.reservation_lease_s
        )
        self.recorder = Recorder(self.redis, self.breaker)
        self._numbers = Numbers()
        self.metrics = Metrics(self._numbers, partial(readings, self), workers)

    async def open(self) -> None:
        """Connect and load. Raises DatabaseError; without Redis it starts with an open limiter."""
        settings = self.settings
        look_not_yet()
        self._database = await connect(settings.database_url, min_size=1, max_size=DATABASE_POOL)
        repository = Repository(self._database)
        self.config = Config(
            repository,
            settings.defaults,
            partial(changes, self._subscriber),
            poll_s=settings.config_poll_s,
        )
        await self.config.start()
        self._upstreams = UpstreamClient(new_transport(settings), settings)
        self.authenticator = Authenticator(repository)
        self.management = Management(
            repository, LiveNumbers(self.redis), partial(publish, self._address), settings.defaults
        )
        store = SessionStore(self.redis, self.breaker)
        self.sessions = Sessions(store, self.authenticator)
        self.sign_in_pace = Pace(store, trusted_proxies=settings.trusted_proxies)
        self.journal = Journal(settings, self._numbers)
        self.proxy = Proxy(
            settings, self.config, self.limiter, self.recorder, self._upstreams, self.journal
        )
        self.recorder.start()
        self.copier = Copier(Counters(self.redis), repository.ledger, self.limiter, self.config)
        await self.copier.start()
        try:
            await self.limiter.load()
        except LimiterError as error:
            self.breaker.open(str(error))
        self.metrics.start()
        look_seldom()
        log.info(
            "gateway ready",
            keys=len(self.config.snapshot.callers),
            upstreams=sorted(settings.upstreams),
        )

    def drain(self) -> None:
        """Say from now on that this worker ends, and let connections end with their answers."""
        self.is_draining = True
        self.proxy.drain()

    async def close(self) -> None:
        """Settle what is still under way and what waits to be counted, then disconnect."""
        for exchange in tuple(self.proxy.open):
            exchange.settle(client_left=True)
        await self.config.stop()
        await self.limiter.close(FLUSH_S)
        await self.recorder.close(RECORD_S)
        await self.copier.close(COPY_S)
        await self.breaker.close()
        await self.metrics.close()
        await self._upstreams.aclose()
        for client in (self.redis, self._prober, self._subscriber):
            await client.aclose()
        await disconnect(self._database, DISCONNECT_S)


def readings(runtime: Runtime) -> tuple[dict[str, float], dict[str, float]]:
    """What its parts know of themselves: what only grows, and what is so at the moment."""
    limiter, config = runtime.limiter, runtime.config
    return (
        {
            "ibex_admitted_open_total": limiter.admitted_open,
            "ibex_limiter_broken_total": limiter.broken,
            "ibex_settlements_lost_total": limiter.spool.lost,
        },
        {
            "ibex_limiter_open": int(runtime.breaker.is_open),
            "ibex_open_requests": len(runtime.proxy.open),
            "ibex_spool_size": len(limiter.spool),
            "ibex_snapshot_age_seconds": config.age_s,
            "ibex_snapshot_version": config.version,
            "ibex_snapshot_stale": int(config.is_stale),
            "ibex_changes_heard": int(config.subscribed),
            "ibex_ledger_lag_seconds": runtime.copier.lag_s,
        },
    )

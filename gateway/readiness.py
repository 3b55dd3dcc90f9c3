"""What `/readyz` says: whether traffic can be served, and what is degraded meanwhile.

Nobody is asked for it: all of this is known from the work itself, so that a probe costs nothing
and an outage does not make it hang.
"""

from gateway.runtime import Runtime
from gateway.settings import Settings

OK = 200
UNAVAILABLE = 503


def readiness(runtime: Runtime) -> tuple[int, dict[str, object]]:
    """Status and body. Only what ends is not ready: what is degraded serves, and is told."""
    parts = {
        "limiter": _limiter(runtime),
        "config": _config(runtime),
        "ledger": _ledger(runtime),
        "postgres": {"state": "failing" if _is_postgres_failing(runtime) else "ok"},
        "upstreams": _upstreams(runtime.settings),
    }
    told = {"status": _status(runtime), **parts, "open_requests": len(runtime.proxy.open)}
    return UNAVAILABLE if runtime.is_draining else OK, told


def _status(runtime: Runtime) -> str:
    if runtime.is_draining:
        return "draining"
    is_degraded = (
        runtime.breaker.is_open
        or runtime.copier.is_behind
        or _is_postgres_failing(runtime)
        or any(upstream.is_incomplete for upstream in runtime.settings.upstreams.values())
    )
    return "degraded" if is_degraded else "ok"


def _limiter(runtime: Runtime) -> dict[str, object]:
    limiter = runtime.limiter
    return {
        "state": "open" if runtime.breaker.is_open else "deciding",
        "admitted_open": limiter.admitted_open,
        "broken": limiter.broken,
        "unsettled": len(limiter.spool),
        "settlements_lost": limiter.spool.lost,
        "tokens_estimated": limiter.tokens_estimated,
    }


def _config(runtime: Runtime) -> dict[str, object]:
    config = runtime.config
    return {
        "state": "stale" if config.is_stale else "current",
        "age_s": round(config.age_s, 1),
        "version": config.version,
        "changes_heard": config.subscribed,
        "organizations": len(config.snapshot.organizations),
        "keys": len(config.snapshot.callers),
    }


def _ledger(runtime: Runtime) -> dict[str, object]:
    copier = runtime.copier
    return {
        "state": "behind" if copier.is_behind else "current",
        "lag_s": round(copier.lag_s, 1),
    }


def _is_postgres_failing(runtime: Runtime) -> bool:
    """As the last load of keys and limits, or the last copy to the ledger, has found it."""
    return runtime.config.is_stale or runtime.copier.is_postgres_failing


def _upstreams(settings: Settings) -> dict[str, object]:
    """Requests to an upstream without a key are answered 503."""
    keyless = [one.name for one in settings.upstreams.values() if one.key is None]
    return {"unkeyed": sorted(keyless)}

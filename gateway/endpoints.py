"""The gateway's own routes: an agent's view of its limits, and health."""

from datetime import UTC, datetime

from sanic import HTTPResponse, Request
from sanic.response import json, text

from gateway.caller import find_caller
from gateway.metrics import CONTENT_TYPE
from gateway.rate_headers import month_end
from gateway.readiness import readiness
from gateway.runtime import Runtime
from lua.decision import Subject
from lua.errors import LimiterError
from lua.usage import Live, live
from lua.window import Window


def runtime_of(request: Request) -> Runtime:
    """What this worker composed at its start."""
    return request.app.ctx.runtime  # type: ignore[no-any-return]


async def limits(request: Request) -> HTTPResponse:
    """GET /limits: the calling agent's limits, what is used and left, and when it is free again.

    A `limit` of null is no limit. Where the limiter does not answer, numbers are null and
    `limiter` is "open".
    """
    runtime = runtime_of(request)
    subject = find_caller(request, runtime.config.snapshot).subject
    try:
        (numbers,) = await live(runtime.redis, [(subject.org_id, subject.agent_id)])
    except LimiterError:
        numbers = None
    return json(
        {
            "organization_id": subject.org_id,
            "agent_id": subject.agent_id,
            "limiter": "open" if numbers is None or runtime.breaker.is_open else "deciding",
            **_levels(subject, numbers),
        }
    )


def _levels(subject: Subject, numbers: Live | None) -> dict[str, object]:
    return {
        "agent": _requests(subject.agent_rpm, numbers, numbers.agent if numbers else None),
        "org": _requests(subject.org_rpm, numbers, numbers.org if numbers else None),
        "tokens": _tokens(subject.ceiling, numbers),
    }


def _requests(limit: int | None, numbers: Live | None, window: Window | None) -> dict[str, object]:
    if numbers is None or window is None:
        return {"limit": limit, "window_s": 60, "used": None, "remaining": None, "resets_at": None}
    return {
        "limit": limit,
        "window_s": 60,
        "used": window.used,
        "remaining": _left(limit, window.used),
        "resets_at": _moment(numbers.now_ms + window.reset_ms),
    }


def _tokens(ceiling: int | None, numbers: Live | None) -> dict[str, object]:
    if numbers is None:
        return {"limit": ceiling, "used": None, "held": None, "remaining": None, "resets_at": None}
    return {
        "limit": ceiling,
        "used": numbers.tokens_used,
        "held": numbers.tokens_held,
        "remaining": _left(ceiling, numbers.tokens_used + numbers.tokens_held),
        "resets_at": f"{month_end(numbers.now_ms):%Y-%m-%dT%H:%M:%SZ}",
    }


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


async def healthz(_request: Request) -> HTTPResponse:
    """GET /healthz: this process answers."""
    return json({"status": "ok"})


async def metrics(request: Request) -> HTTPResponse:
    """GET /metrics: all workers' numbers, for Prometheus. It has no names but upstreams'."""
    return text(runtime_of(request).metrics.text(), content_type=CONTENT_TYPE)


async def readyz(request: Request) -> HTTPResponse:
    """GET /readyz: 200 where traffic is served, degraded or not; 503 from SIGTERM on."""
    status, told = readiness(runtime_of(request))
    return json(told, status=status)

"""What is known of a request when it has ended: counted, and told in one line of the log.

The line has who asked, what was decided and how long it took; never a body, a key or a query.
"""

import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

import msgspec
import structlog
from sanic import Request

from gateway import numbers as names
from gateway.config import Caller
from gateway.logs import secrets_pattern
from gateway.metering import Usage
from gateway.numbers import Numbers
from gateway.responses import REQUEST_ID_HEADERS, OwnAnswer
from gateway.routing import Route
from gateway.settings import Settings
from lua.decision import Decision

Outcome = Literal["admitted", "open", "denied", "unauthenticated", "unconfigured", "refused"]
_UNDECIDED: dict[int, Outcome] = {
    401: "unauthenticated",
    403: "unauthenticated",
    503: "unconfigured",
}

log = structlog.get_logger("ibex.access")


class Record:
    """One request to an upstream, as far as it has come. Times are of the monotonic clock."""

    __slots__ = (
        "answered",
        "began",
        "bytes",
        "caller",
        "client_left",
        "decision",
        "failed",
        "forwarded",
        "limiter_s",
        "request",
        "request_id",
        "route",
        "status",
        "usage",
    )

    def __init__(self, request: Request, route: Route) -> None:
        self.began = time.monotonic()
        self.request = request
        self.route = route
        self.caller: Caller | None = None
        self.decision: Decision | None = None
        self.usage: Usage | None = None
        self.forwarded = self.answered = self.limiter_s = 0.0
        self.status = self.bytes = 0
        self.request_id = ""
        self.client_left = self.failed = False

    @property
    def outcome(self) -> Outcome:
        """What became of it here; what its upstream said is the status."""
        if self.decision is None:
            return _UNDECIDED.get(self.status, "refused")
        if self.decision.is_open:
            return "open"
        return "admitted" if self.decision.admitted else "denied"


class _Line(msgspec.Struct, omit_defaults=True):
    """Order and names of what is told. Milliseconds, tokens and bytes; absent is unknown."""

    event: str
    request_id: str
    upstream: str
    method: str
    path: str
    outcome: str
    status: int
    duration_ms: float
    level: str
    timestamp: str
    organization_id: str = ""
    agent_id: str = ""
    key_id: str = ""
    denied_by: str = ""
    limiter_ms: float | None = None
    first_byte_ms: float | None = None
    upstream_ms: float | None = None
    tokens: int | None = None
    estimated: bool = False
    bytes: int = 0
    client_left: bool = False
    upstream_failed: bool = False


class OperatorsLine(msgspec.Struct, omit_defaults=True):
    """What is told of an operator's request. `route` is the pattern that it matched, not the path.

    What an operator sends stays out: a path may hold anything, a query and a body even a key.
    """

    event: str
    method: str
    route: str
    status: int
    duration_ms: float
    level: str
    timestamp: str
    request_id: str = ""
    role: str = ""
    key_id: str = ""
    operation: str = ""


class Journal:
    """Where requests end."""

    def __init__(self, settings: Settings, numbers: Numbers) -> None:
        self._numbers = numbers
        self.has_lines = settings.access_log and settings.log_level in ("debug", "info")
        self._is_json = settings.log_format == "json"
        self._secrets = secrets_pattern(upstream.key for upstream in settings.upstreams.values())

    def end(self, record: Record, answer: OwnAnswer | None) -> None:
        """Count it and tell it. `answer` is the one of ours, if we gave one."""
        ended = time.monotonic()
        if answer is not None:
            record.status = answer.status
            if self.has_lines:
                dialect = record.route.upstream.dialect
                record.request_id = dict(answer.fields).get(REQUEST_ID_HEADERS[dialect], "")
        self._count(record, ended)
        if self.has_lines:
            self.tell(_line(record, ended))

    def _count(self, record: Record, ended: float) -> None:
        numbers, upstream = self._numbers, record.route.upstream.name
        status = f"{record.status // 100}xx" if record.status else "none"
        numbers.add((names.REQUESTS, upstream, record.outcome, status))
        numbers.observe((names.DURATION, upstream), ended - record.began)
        if record.limiter_s:
            numbers.observe((names.LIMITER,), record.limiter_s)
        if record.forwarded:
            numbers.observe((names.UPSTREAM, upstream), ended - record.forwarded)
        if record.answered:
            numbers.observe((names.FIRST_BYTE, upstream), record.answered - record.began)
        if record.usage and record.usage.tokens:
            source = "estimated" if record.usage.estimated else "reported"
            numbers.add((names.TOKENS, upstream, source), record.usage.tokens)
        self._count_unusual(record, upstream)

    def _count_unusual(self, record: Record, upstream: str) -> None:
        if record.decision is not None and record.decision.level:
            self._numbers.add((names.DENIED, record.decision.level))
        if record.failed:
            self._numbers.add((names.FAILURES, upstream))
        if record.client_left:
            self._numbers.add((names.LEFT, upstream))

    def tell(self, line: _Line | OperatorsLine) -> None:
        """Write one line, if `has_lines`."""
        if self._is_json:
            # As structlog would write it, at a tenth of the cost.
            with suppress(OSError):  # nobody reads: the request is not to suffer for it
                text = self._secrets.sub("***", msgspec.json.encode(line).decode())
                sys.stderr.write(text + "\n")
        else:
            fields = msgspec.to_builtins(line)
            log.info(**{name: fields[name] for name in fields.keys() - {"level", "timestamp"}})


def _line(record: Record, ended: float) -> _Line:
    line = _Line(
        "request",
        record.request_id,
        record.route.upstream.name,
        record.request.method,
        record.route.path,
        record.outcome,
        record.status,
        ms(ended - record.began),
        "info",
        timestamp(),
        bytes=record.bytes,
        client_left=record.client_left,
        upstream_failed=record.failed,
    )
    if record.caller is not None:
        line.organization_id = record.caller.subject.org_id
        line.agent_id = record.caller.subject.agent_id
        line.key_id = record.caller.key_id
    if record.decision is not None:
        line.denied_by = record.decision.level or ""
        line.limiter_ms = ms(record.limiter_s)
    if record.forwarded:
        line.upstream_ms = ms(ended - record.forwarded)
    if record.answered:
        line.first_byte_ms = ms(record.answered - record.began)
    if record.usage is not None:
        line.tokens, line.estimated = record.usage.tokens, record.usage.estimated
    return line


def timestamp() -> str:
    """Now, as every line of the log has it."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def ms(seconds: float) -> float:
    return round(seconds * 1000, 2)

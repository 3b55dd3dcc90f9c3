"""Every answer of our own to an agent, in the shape that its provider's SDK understands.

OpenAI: {"error": {"message", "type", "param", "code"}}
Anthropic: {"type": "error", "error": {"type", "message"}, "request_id"}
"""

import random
from math import ceil
from typing import NamedTuple

import msgspec

from gateway.http1 import Verbatim
from gateway.rate_headers import Header, month_end, rate_headers
from gateway.settings import Dialect
from lua.decision import Decision


class Kind(NamedTuple):
    """One way to refuse: its status, and what each family calls it."""

    status: int
    openai_type: str
    openai_code: str
    anthropic_type: str


UNAUTHORIZED = Kind(401, "invalid_request_error", "invalid_api_key", "authentication_error")
FORBIDDEN = Kind(403, "invalid_request_error", "not_an_agent_key", "permission_error")
BAD_REQUEST = Kind(400, "invalid_request_error", "invalid_request", "invalid_request_error")
UNREADABLE = Kind(400, "invalid_request_error", "invalid_json", "invalid_request_error")
UPGRADE = Kind(400, "invalid_request_error", "websocket_not_supported", "invalid_request_error")
NOT_FOUND = Kind(404, "invalid_request_error", "unknown_upstream", "not_found_error")
NOT_ALLOWED = Kind(405, "invalid_request_error", "method_not_allowed", "invalid_request_error")
REQUEST_TIMEOUT = Kind(408, "invalid_request_error", "request_timeout", "timeout_error")
TOO_LARGE = Kind(413, "invalid_request_error", "request_too_large", "request_too_large")
EXPECTATION = Kind(417, "invalid_request_error", "expectation_failed", "invalid_request_error")
ENCODED = Kind(415, "invalid_request_error", "unsupported_encoding", "invalid_request_error")
HEADERS_TOO_LARGE = Kind(431, "invalid_request_error", "headers_too_large", "request_too_large")
RATE = Kind(429, "requests", "rate_limit_exceeded", "rate_limit_error")
MONTH = Kind(429, "insufficient_quota", "organization_usage_limit_exceeded", "rate_limit_error")
INTERNAL = Kind(500, "server_error", "internal_error", "api_error")
UNREACHABLE = Kind(502, "server_error", "upstream_unreachable", "api_error")
NOT_CONFIGURED = Kind(503, "server_error", "upstream_not_configured", "api_error")
UNAVAILABLE = Kind(503, "server_error", "unavailable", "overloaded_error")
SILENT = Kind(504, "server_error", "upstream_timeout", "timeout_error")

REQUEST_ID_HEADERS: dict[Dialect, str] = {"openai": "x-request-id", "anthropic": "request-id"}


class OwnAnswer(Verbatim):
    """An answer of ours: no header of it has anything that a client said."""

    def __init__(self, status: int, headers: list[Header], body: bytes) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.status = status
        self.fields = headers
        self.body = body

    def lines(self) -> bytes:
        """The fields, each with its line end."""
        return "".join([f"{name}: {value}\r\n" for name, value in self.fields]).encode()


class Refusal(Exception):  # noqa: N818 - not an error of ours: an answer
    """The request is answered by us. The message is for the client."""

    def __init__(self, kind: Kind, message: str, *headers: Header) -> None:
        super().__init__(message)
        self.kind = kind
        self.headers = headers


def new_request_id() -> str:
    """An id for one request, such as `req_5f0c...`."""
    return f"req_{random.getrandbits(96):024x}"


def refused(refusal: Refusal, dialect: Dialect) -> OwnAnswer:
    """The answer to a request that was refused before it was decided, or that failed upstream."""
    return _answer(refusal.kind, str(refusal), list(refusal.headers), dialect)


def denied(decision: Decision, needed: int, dialect: Dialect) -> OwnAnswer:
    """The 429 for a denial: by what, how much was used, and when the request would pass.

    Without a Retry-After where waiting within the month does not help: SDKs would sleep for weeks.
    """
    headers: list[Header] = [("Ibex-Denied-By", decision.level or "")]
    wait_ms = decision.retry_after_ms
    if wait_ms is None:
        headers.append(("x-should-retry", "false"))
    else:
        headers += [
            ("Retry-After", str(max(1, ceil(wait_ms / 1000)))),
            ("retry-after-ms", str(wait_ms)),
        ]
    headers += rate_headers(decision, dialect)
    kind = MONTH if decision.level == "tokens" else RATE
    return _answer(kind, _denial(decision, needed), headers, dialect)


def _denial(decision: Decision, needed: int) -> str:
    subject = decision.subject
    if decision.level == "tokens":
        return (
            f"The organization's ceiling of {subject.ceiling} tokens per month leaves no room: "
            f"{decision.tokens_used} used, {decision.tokens_held} held by open requests, "
            f"{needed} needed by this one. "
            f"It resets at {month_end(decision.now_ms):%Y-%m-%dT%H:%M:%SZ}."
        )
    name, limit, used = {
        "agent": ("agent's", subject.agent_rpm, decision.agent_used),
        "org": ("organization's", subject.org_rpm, decision.org_used),
        "global": ("platform's", subject.global_rpm, decision.global_used),
    }[decision.level or ""]
    wait_ms = decision.retry_after_ms
    when = (
        "Retrying does not help this month."
        if wait_ms is None
        else f"This request would pass in {wait_ms / 1000:.3f} s."
    )
    return (
        f"The {name} limit of {limit} requests per minute is reached: "
        f"{used} in the last 60 s. {when}"
    )


def broken_off(refusal: Refusal, dialect: str) -> bytes:
    """The event by which a stream tells that it has failed: SDKs raise it as an error."""
    body = msgspec.json.encode(_error(refusal.kind, str(refusal), new_request_id(), dialect))
    name = b"event: error\n" if dialect == "anthropic" else b""
    return b"%bdata: %b\n\n" % (name, body)


def _answer(kind: Kind, message: str, headers: list[Header], dialect: Dialect) -> OwnAnswer:
    request_id = new_request_id()
    body = msgspec.json.encode(_error(kind, message, request_id, dialect))
    return OwnAnswer(
        kind.status,
        [(REQUEST_ID_HEADERS[dialect], request_id), *headers, ("Content-Type", "application/json")],
        body,
    )


def _error(kind: Kind, message: str, request_id: str, dialect: str) -> dict[str, object]:
    if dialect == "anthropic":
        return {
            "type": "error",
            "error": {"type": kind.anthropic_type, "message": message},
            "request_id": request_id,
        }
    return {
        "error": {
            "message": message,
            "type": kind.openai_type,
            "param": None,
            "code": kind.openai_code,
        }
    }

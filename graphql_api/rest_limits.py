"""REST for limits, live numbers, usage and the history of changes.

All deciding is `Management`'s.
"""

from collections.abc import Mapping

import msgspec
from sanic import HTTPResponse

from graphql_api import rest_bodies as bodies
from graphql_api.model import RateLimits
from graphql_api.rest_call import Call, answered, effect
from graphql_api.rest_operation import PLATFORM, WRITERS, Operations, Parameter

_ORGANIZATION = "/v1/organizations/{organization_id}"
_AGENT = f"{_ORGANIZATION}/agents/{{agent_id}}"

_TIME = {"type": "string", "format": "date-time"}
_PERIOD = (
    Parameter("by", "What is summed up.", {"enum": ["hour", "day"], "default": "day"}),
    Parameter("from", "The oldest; without it 48 hours or 31 days are told.", _TIME),
    Parameter("to", "The end; without it, now.", _TIME),
)

OPERATIONS = Operations()


@OPERATIONS.declare(
    "GET",
    f"{_ORGANIZATION}/rate-limits",
    "Read an organization's limits and live numbers",
    answer=bodies.RateLimitStatus,
    is_versioned=True,
)
async def read_organization_rate_limits(call: Call) -> HTTPResponse:
    return _status(await call.management.rate_limits(call.viewer, **call.ids))


@OPERATIONS.declare(
    "PATCH",
    f"{_ORGANIZATION}/rate-limits",
    "Change an organization's limits",
    body=bodies.LimitsPatch,
    answer=bodies.RateLimitStatus,
    roles=WRITERS,
    is_versioned=True,
    is_published=True,
)
async def change_organization_rate_limits(call: Call) -> HTTPResponse:
    return await _change_limits(call)


@OPERATIONS.declare(
    "GET",
    f"{_AGENT}/rate-limits",
    "Read an agent's limits and live numbers",
    answer=bodies.RateLimitStatus,
    is_versioned=True,
)
async def read_agent_rate_limits(call: Call) -> HTTPResponse:
    return _status(await call.management.rate_limits(call.viewer, **call.ids))


@OPERATIONS.declare(
    "PATCH",
    f"{_AGENT}/rate-limits",
    "Change an agent's limits",
    body=bodies.AgentLimitsPatch,
    answer=bodies.RateLimitStatus,
    roles=WRITERS,
    is_versioned=True,
    is_published=True,
)
async def change_agent_rate_limits(call: Call) -> HTTPResponse:
    return await _change_limits(call)


@OPERATIONS.declare(
    "GET",
    f"{_ORGANIZATION}/rate-limits/usage",
    "Read an organization's last 60 minutes",
    answer=bodies.Usage,
)
async def read_organization_usage(call: Call) -> HTTPResponse:
    return await _usage(call)


@OPERATIONS.declare(
    "GET",
    "/v1/agents/{agent_id}/rate-limits/usage",
    "Read an agent's last 60 minutes",
    answer=bodies.Usage,
)
async def read_agent_usage(call: Call) -> HTTPResponse:
    return await _usage(call)


@OPERATIONS.declare(
    "GET",
    "/v1/rate-limits/usage",
    "Read the platform's last 60 minutes",
    answer=bodies.Usage,
    roles=PLATFORM,
)
async def read_platform_usage(call: Call) -> HTTPResponse:
    return await _usage(call)


@OPERATIONS.declare(
    "GET",
    f"{_ORGANIZATION}/usage",
    "Read an organization's usage by hour or day",
    answer=bodies.History,
    parameters=_PERIOD,
)
async def read_organization_history(call: Call) -> HTTPResponse:
    return await _history(call)


@OPERATIONS.declare(
    "GET",
    "/v1/agents/{agent_id}/usage",
    "Read an agent's usage by hour or day",
    answer=bodies.History,
    parameters=_PERIOD,
)
async def read_agent_history(call: Call) -> HTTPResponse:
    return await _history(call)


@OPERATIONS.declare(
    "GET",
    f"{_ORGANIZATION}/rate-limits/changes",
    "List the changes of limits, newest first",
    answer=bodies.Changes,
    cursor=bodies.NUMBER_PATTERN,
)
async def list_rate_limit_changes(call: Call) -> HTTPResponse:
    page = await call.management.changes(call.viewer, call.organization_id, **call.paging())
    changes = msgspec.convert(page.items, tuple[bodies.RateLimitChange, ...], from_attributes=True)
    return answered(bodies.Changes(changes, page.next))


async def _usage(call: Call) -> HTTPResponse:
    points = await call.management.usage(call.viewer, **call.ids)
    return answered(bodies.Usage(points=points, **call.ids))


async def _history(call: Call) -> HTTPResponse:
    asked = call.parameters
    told = await call.management.usage_history(
        call.viewer, **call.ids, by=asked.get("by"), since=asked.get("from"), until=asked.get("to")
    )
    return answered(bodies.History(by=told.by, spans=told.spans, **call.ids))


async def _change_limits(call: Call) -> HTTPResponse:
    patch = call.body(bodies.LimitsPatch)
    changed = await call.management.update_rate_limits(
        call.viewer,
        call.organization_id,
        call.ids.get("agent_id"),
        patch.change(),
        expected_version=call.expected_version(),
        via="rest",
    )
    return _status(changed.value, effect(changed))


def _status(limits: RateLimits, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """The ETag names the version of what is set; the live numbers move without it."""
    body = msgspec.convert(limits, bodies.RateLimitStatus, from_attributes=True)
    if not limits.global_is_visible:
        body = msgspec.structs.replace(body, global_requests_per_minute=msgspec.UNSET)
    return answered(body, headers={"ETag": f'"{limits.version}"', **(headers or {})})

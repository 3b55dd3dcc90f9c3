"""Traces go through the gateway as if it were not there."""

import pytest
from gateway_stack import Stack
from raw_calls import CHAT, FILES, chat, fields, provision
from raw_client import exchange, request
from raw_upstream import RawUpstream

TRACING = [
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("tracestate", "vendor=t61rcWkgMzE , other@x=1"),
    ("baggage", "userId=alice;ttl=1,  serverNode=DF%2028"),
    ("tracestate", "third=3"),
    ("baggage", ""),
    ("traceparent", "not what the standard wants"),
]
NAMES = {name.encode() for name, _ in TRACING}


@pytest.mark.parametrize("target", [CHAT, FILES])
def test_trace_context_passes_untouched(stack: Stack, raw: RawUpstream, target: str) -> None:
    """Every byte, every repetition and their order, whether the request is read here or not."""
    agent = provision(stack).agent
    sent = request("POST", target, [*TRACING, *fields(agent)], chat())
    assert exchange(stack.gateway.port, sent).status == 200

    came = [field for field in raw.requests[0].headers if field[0] in NAMES]

    assert came == [(name.encode(), value.encode()) for name, value in TRACING]


@pytest.mark.parametrize("target", [CHAT, FILES])
def test_no_trace_is_invented(stack: Stack, raw: RawUpstream, target: str) -> None:
    """An upstream learns of no trace that the client has not begun."""
    agent = provision(stack).agent
    sent = request("POST", target, fields(agent), chat())
    assert exchange(stack.gateway.port, sent).status == 200

    assert {name for name, _ in raw.requests[0].headers}.isdisjoint(NAMES)

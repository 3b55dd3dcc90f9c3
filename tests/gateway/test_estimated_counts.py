"""Tokens that no provider reported are told apart from those that one did."""

import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from counters import Counters
from gateway_stack import Stack, Tenant
from metered_answers import UNASKED, USAGE, delta, sse, streaming
from raw_calls import CHAT, MESSAGES, PROMPT_TOKENS, call, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import Peer, RawUpstream
from servers import eventually

from db.api_keys import Role

STARTED = sse({"type": "message_start", "message": {"usage": {"input_tokens": 25}}})


class Unfinished:
    """Scripts an upstream that sends one piece of an answer, then waits to be left."""

    def __init__(self, piece: bytes) -> None:
        self._piece = piece
        self.asked = threading.Event()

    def __call__(self, peer: Peer) -> None:
        self.asked.set()
        if self._piece:
            peer.start_stream()
            peer.chunk(self._piece)
        peer.wait_until_left(5)
        peer.close()


def usage(stack: Stack, tenant: Tenant) -> list[tuple[int, int]]:
    """Tokens of the last hour, and those of them that were estimated: of the agent, and of its
    organization, as their operator reads them.
    """
    key = stack.tenants.run(lambda s: s.issue_operator_key(tenant.id, Role.READ_ONLY)).value.key
    headers = {"Authorization": f"Bearer {key}"}
    found = []
    with httpx.Client(base_url=stack.url, headers=headers, timeout=10) as client:
        for path in (f"agents/{tenant.agent.id}", f"organizations/{tenant.id}"):
            points: list[dict[str, Any]] = client.get(f"/v1/{path}/rate-limits/usage").json()[
                "points"
            ]
            assert all(point["estimated"] <= point["tokens"] for point in points)
            found.append((total(points, "tokens"), total(points, "estimated")))
    return found


def total(points: list[dict[str, Any]], kind: str) -> int:
    return sum(point[kind] for point in points)


def leave(stack: Stack, raw: RawUpstream, tenant: Tenant, target: str, piece: bytes) -> None:
    """Ask for a stream, and leave when the piece of it is here."""
    raw.script = upstream = Unfinished(piece)
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", target, fields(tenant.agent), chat(stream=True)))
        assert upstream.asked.wait(5)
        if piece:
            client.head()
            assert client.chunk() == piece
    assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 0)


@pytest.mark.parametrize(
    ("target", "piece", "charged"),
    [
        pytest.param(CHAT, b"", PROMPT_TOKENS, id="before the answer"),
        pytest.param(CHAT, sse(delta("a")), PROMPT_TOKENS + 1, id="in the middle"),
        pytest.param(MESSAGES, STARTED, 25, id="after the prompt was reported"),
    ],
)
def test_what_a_leaving_client_is_charged_is_told_as_estimated(
    stack: Stack, raw: RawUpstream, target: str, piece: bytes, charged: int
) -> None:
    """In all of what is charged, beside another request whose usage was reported."""
    before = stack.gateway.readyz()["limiter"]["tokens_estimated"]
    tenant = provision(stack, tokens=10_000)
    leave(stack, raw, tenant, target, piece)
    assert Counters(stack, tenant).settled(charged)
    raw.script = Peer.json
    assert call(stack, tenant.agent, CHAT, chat()).status == 200
    assert Counters(stack, tenant).settled(charged + 7)

    assert usage(stack, tenant) == [(charged + 7, charged)] * 2
    limiter = stack.gateway.readyz()["limiter"]
    assert limiter["tokens_estimated"] - before == charged
    assert limiter["admitted_open"] == 0


@pytest.mark.parametrize(
    ("script", "tokens", "estimated"),
    [
        pytest.param(streaming(sse(delta("a"), {"usage": USAGE}, "[DONE]")), 15, 0, id="reported"),
        pytest.param(streaming(UNASKED), PROMPT_TOKENS + 2, PROMPT_TOKENS + 2, id="not reported"),
    ],
)
def test_a_whole_answer_is_estimated_only_without_usage(
    stack: Stack,
    raw: RawUpstream,
    script: Callable[[Peer], None],
    tokens: int,
    estimated: int,
) -> None:
    """What the provider says is taken as it is, and never called an estimate."""
    tenant = provision(stack)
    raw.script = script
    assert call(stack, tenant.agent, CHAT, chat(stream=True)).status == 200
    assert Counters(stack, tenant).settled(tokens)

    assert usage(stack, tenant) == [(tokens, estimated)] * 2

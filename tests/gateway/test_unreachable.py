"""Upstreams that cannot be spoken to, in every way: an answer of ours instead, at no cost."""

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway
from raw_calls import call, chat, provision
from raw_upstream import Peer, RawUpstream
from servers import RedisServer


@pytest.fixture
def cut_off(start_gateway: StartGateway, redis_server: RedisServer, llmock_url: str) -> Stack:
    """A gateway whose upstreams have no address, speak no TLS, or answer nothing."""
    return start_gateway(
        redis_server,
        UPSTREAM_NAMELESS_URL="https://nobody.invalid",  # RFC 6761: a name that never is one
        UPSTREAM_NAMELESS_KEY="sk-upstream-secret",
        UPSTREAM_UNSAFE_URL=llmock_url.replace("http:", "https:"),
        UPSTREAM_UNSAFE_KEY="sk-upstream-secret",
        UPSTREAM_UNSAFE_DIALECT="anthropic",
        UPSTREAM_IDLE_TIMEOUT_S="1",
        LIMITER_DEADLINE_MS="5000",
    )


def keep_silent(peer: Peer) -> None:
    peer.wait_until_left()


def stop_within_the_head(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
    peer.wait_until_left()


def test_a_failure_before_the_first_byte_is_an_answer_of_ours(
    cut_off: Stack, raw: RawUpstream
) -> None:
    """502 or 504 in the provider's shape, to a stream as well: no head of a stream was sent yet."""
    tenant = provision(cut_off)
    asked = 0
    for upstream, path, script, status in (
        ("dead", "/v1/chat/completions", None, 502),
        ("nameless", "/v1/chat/completions", None, 502),
        ("unsafe", "/v1/messages", None, 502),
        ("raw", "/v1/chat/completions", keep_silent, 504),
        ("raw", "/v1/chat/completions", stop_within_the_head, 504),
        ("claude", "/v1/messages", stop_within_the_head, 504),
    ):
        raw.script = script or Peer.json
        for is_stream in (False, True):
            answer = call(cut_off, tenant.agent, f"/{upstream}{path}", chat(stream=is_stream))
            asked += 1
            assert (answer.status, answer.ended) == (status, True)
            assert answer.get("content-type") == "application/json"
            error = answer.json()["error"]
            assert error["message"].startswith(f"The upstream '{upstream}' ")
            assert ("code" in error) is (path == "/v1/chat/completions")
    counters = Counters(cut_off, tenant)
    assert counters.settled(0)
    assert counters.requests(tenant.agent) == asked
    assert "sk-upstream-secret" not in cut_off.gateway.log
    limiter = cut_off.gateway.readyz()["limiter"]
    assert (limiter["admitted_open"], limiter["broken"]) == (0, 0)

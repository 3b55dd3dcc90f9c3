"""Clients that stop: what they hold is let go after a while, and settled."""

import time
from contextlib import ExitStack

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway
from raw_calls import CHAT, FILES, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, eventually

EVENT = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
SOON_S = 15
"""Once the client was idle for a second, and what was written to it is given up."""


@pytest.fixture
def impatient(start_gateway: StartGateway, redis_server: RedisServer) -> Stack:
    """A gateway that waits a second for its clients."""
    return start_gateway(redis_server, CLIENT_IDLE_TIMEOUT_S="1", LIMITER_DEADLINE_MS="5000")


def nothing_is_open(stack: Stack) -> bool:
    limiter = stack.gateway.readyz()["limiter"]
    assert (limiter["admitted_open"], limiter["broken"]) == (0, 0)
    return bool(stack.gateway.readyz()["open_requests"] == 0)


def test_a_client_that_never_reads_again_is_left(impatient: Stack, raw: RawUpstream) -> None:
    """Its connection, its upstream's and its reservation are let go; a reading one is served on."""
    tenant = provision(impatient)
    ended = []

    def script(peer: Peer) -> None:
        peer.start_stream()
        try:
            for _ in range(10_000):
                peer.chunk(EVENT * 1000)
        except OSError:
            ended.append(True)
            raise

    raw.script = script
    with (
        RawClient(impatient.gateway.port) as reading,
        RawClient(impatient.gateway.port, receive_buffer=65_536) as stopped,
    ):
        for client in (reading, stopped):
            client.send(request("POST", CHAT, fields(tenant.agent), chat(stream=True)))
            client.head()
        give_up = time.monotonic() + SOON_S
        while not ended or Counters(impatient, tenant).open() > 1:
            assert all(reading.chunk() for _ in range(20))
            assert time.monotonic() < give_up
        assert Counters(impatient, tenant).open() == 1
        assert "a client does not read its answer" in impatient.gateway.log
    assert eventually(lambda: nothing_is_open(impatient), SOON_S)
    assert eventually(lambda: raw.open_connections <= 1)
    assert eventually(lambda: Counters(impatient, tenant).open() == 0)
    assert Counters(impatient, tenant).held() == 0


def test_an_upload_that_stalls_is_refused(impatient: Stack, raw: RawUpstream) -> None:
    """408 in the provider's shape and the end of the connection; no token is charged."""
    tenant = provision(impatient)
    head = fields(tenant.agent)
    with ExitStack() as clients:
        stalled = []
        for target in (FILES, CHAT):
            for data in (
                request("POST", target, head, chunks=[chat()]),
                request("POST", target, head, chat()),
            ):
                stalled.append(clients.enter_context(RawClient(impatient.gateway.port)))
                stalled[-1].send(data[:-10])
        for client in stalled:
            answer = client.answer("POST")
            assert answer.status == 408
            assert answer.json()["error"]["code"] == "request_timeout"
            assert client.is_closed()
    assert raw.requests == []
    assert eventually(lambda: nothing_is_open(impatient), SOON_S)
    assert Counters(impatient, tenant).settled(0)


def test_a_thinking_upstream_is_waited_for(impatient: Stack, raw: RawUpstream) -> None:
    """The client is idle meanwhile, and may be: it has said what it had to say."""
    tenant = provision(impatient)

    def think(peer: Peer) -> None:
        time.sleep(2.5)
        peer.json()

    raw.script = think
    with RawClient(impatient.gateway.port) as client:
        client.send(request("POST", CHAT, fields(tenant.agent), chat()))
        assert client.answer("POST").status == 200

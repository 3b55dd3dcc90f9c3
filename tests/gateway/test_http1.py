"""Requests on the wire: one reading of them, or none."""

import time

import pytest
from counters import Counters
from gateway_stack import Agent, Stack
from http_judge import one_answer, one_request
from raw_calls import CHAT, FILES, chat, fields, provision
from raw_client import RawClient, exchange, request
from raw_upstream import RawUpstream

HEADS = {
    "line feeds alone": b"POST /raw/v1/files HTTP/1.1\nHost: x\nKEY\nContent-Length: 0\n\n",
    "a line feed within": b"POST /raw/v1/files HTTP/1.1\r\nHost: x\nKEY\r\n\r\n",
    "a carriage return within": b"POST /raw/v1/files HTTP/1.1\r\nHost: x\rKEY\r\n\r\n",
    "no host": b"POST /raw/v1/files HTTP/1.1\r\nKEY\r\n\r\n",
    "two hosts": b"POST /raw/v1/files HTTP/1.1\r\nHost: x\r\nHost: y\r\nKEY\r\n\r\n",
    "two hosts, old": b"POST /raw/v1/files HTTP/1.0\r\nHost: x\r\nHost: y\r\nKEY\r\n\r\n",
    "two spaces": b"POST  /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n",
    "a tab": b"POST\t/raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n",
    "space after the version": b"POST /raw/v1/files HTTP/1.1 \r\nHost: x\r\nKEY\r\n\r\n",
    "another version": b"POST /raw/v1/files HTTP/1.2\r\nHost: x\r\nKEY\r\n\r\n",
    "version in lower case": b"POST /raw/v1/files http/1.1\r\nHost: x\r\nKEY\r\n\r\n",
    "no method": b" /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n",
    "a method that is no token": b"PO(ST /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n",
    "space before the first field": b"POST /raw/v1/files HTTP/1.1\r\n Host: x\r\nKEY\r\n\r\n",
    "a folded length": b"POST /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n"
    b"Content-Length:\r\n 5\r\n\r\nhello",
    "length in other digits": "POST /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n"
    "Content-Length: \u0665\r\n\r\nhello".encode(),
    "length behind odd space": "POST /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n"
    "Content-Length: 5\u2003\r\n\r\nhello".encode(),
    "length without a value": b"POST /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n"
    b"Content-Length:\r\n\r\n",
    "the same length twice": b"POST /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n"
    b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "chunks in HTTP/1.0": b"POST /raw/v1/files HTTP/1.0\r\nHost: x\r\nKEY\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "an unknown coding": b"POST /raw/v1/files HTTP/1.1\r\nHost: x\r\nKEY\r\n"
    b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}

EXPECT = ("Expect", "100-continue")
CLOSING = ("Connection", "close")


def keyed(data: bytes, agent: Agent) -> bytes:
    return data.replace(b"KEY", f"Authorization: Bearer {agent.key}".encode())


@pytest.mark.parametrize("case", HEADS)
def test_a_head_with_two_readings_is_no_request(stack: Stack, raw: RawUpstream, case: str) -> None:
    """One answer at once, then the end of the connection: what follows is not taken for more."""
    tenant = provision(stack)
    smuggled = request("GET", "/raw/v1/smuggled", fields(tenant.agent))
    before = time.monotonic()
    with RawClient(stack.gateway.port) as client:
        client.send(keyed(HEADS[case], tenant.agent) + smuggled)
        answer = one_answer(client.read_to_the_end(), ended=True)
    assert time.monotonic() - before < 5
    assert answer.start.status_code in (400, 404, 405)
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


@pytest.mark.parametrize("case", ["line feeds alone", "a line feed within", "tls"])
def test_a_head_that_can_be_none_is_not_waited_for(stack: Stack, case: str) -> None:
    """Its end would never come: it is refused as soon as that is known, whatever is missing."""
    data = keyed(HEADS[case], provision(stack).agent).removesuffix(b"\r\n")
    with RawClient(stack.gateway.port, timeout_s=5) as client:
        client.send(data)
        assert one_answer(client.read_to_the_end(), ended=True).start.status_code == 400


def test_a_method_is_spelled_in_one_way(stack: Stack) -> None:
    """`Head` is no HEAD: its answer has a body, where it is read as a request and where not."""
    agent = provision(stack).agent
    for more in ("", "Content-Length: 1\r\nContent-Length: 2\r\n"):
        data = request("Head", FILES, [*fields(agent), CLOSING]).decode()
        with RawClient(stack.gateway.port, timeout_s=5) as client:
            client.send(data.replace("Host", f"{more}Host").encode())
            answer = one_answer(client.read_to_the_end(), ended=True)
        assert answer.start.status_code == (400 if more else 405)
        assert answer.body


@pytest.mark.parametrize(
    ("method", "target"),
    [("CONNECT", "evil.test:443"), ("OPTIONS", "*"), ("GET", "http://evil.test/raw/v1/files")],
)
def test_a_target_of_another_form_is_nobodys(
    stack: Stack, raw: RawUpstream, method: str, target: str
) -> None:
    """Ibex is no tunnel and no forward proxy: a clear answer, and the next request has its own."""
    tenant = provision(stack)
    with RawClient(stack.gateway.port) as client:
        for _ in range(2):
            client.send(request(method, target, fields(tenant.agent)))
            answer = client.answer()
            assert answer.status in (404, 405)
            assert answer.json()["error"]["message"]
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


CHUNKS = {
    "size ends in a line feed": b"5\nhello\r\n0\r\n\r\n",
    "size with a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "size with a line": b"0_5\r\nhello\r\n0\r\n\r\n",
    "space before the size": b" 5\r\nhello\r\n0\r\n\r\n",
    "space behind the size": b"5 \r\nhello\r\n0\r\n\r\n",
    "size in other digits": "\u0665\r\nhello\r\n0\r\n\r\n".encode(),
    "size beyond any body": b"FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "no line end behind the data": b"5\r\nhello0\r\n\r\n",
    "something else behind the data": b"5\r\nhelloXX0\r\n\r\n",
    "more data than said": b"4\r\nhello\r\n0\r\n\r\n",
    "line feed in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "control in an extension": b"5;a=\x01\r\nhello\r\n0\r\n\r\n",
    "an endless extension": b"5;" + b"a" * 5000,
    "a trailer": b"5\r\nhello\r\n0\r\nX-Smuggled: 1\r\n\r\n",
    "a request in place of the trailer": b"5\r\nhello\r\n0\r\nGET /raw/v1/y HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("case", CHUNKS)
@pytest.mark.parametrize("target", [FILES, CHAT, "/nothing/x"])
def test_a_chunk_with_two_readings_ends_the_connection(
    stack: Stack, raw: RawUpstream, case: str, target: str
) -> None:
    """Refused where the body is read; no upstream sees a whole request, nothing follows."""
    tenant = provision(stack)
    head = request("POST", target, [*fields(tenant.agent), ("Transfer-Encoding", "chunked")])
    smuggled = request("GET", "/raw/v1/smuggled", fields(tenant.agent))
    with RawClient(stack.gateway.port) as client:
        client.send(head + CHUNKS[case] + smuggled)
        answer = one_answer(client.read_to_the_end(), ended=True)
    assert answer.start.status_code == (404 if target == "/nothing/x" else 400)
    assert raw.requests == []
    assert Counters(stack, tenant).settled(0)


FRAMED = {
    "an extension": b'5;a="b c"\r\nhello\r\n0\r\n\r\n',
    "space before an extension": b"5 ;a\r\nhello\r\n0;b\r\n\r\n",
    "zeros": b"00005\r\nhello\r\n000\r\n\r\n",
    "digits of either case": b"a\r\n" + b"h" * 10 + b"\r\nB\r\n" + b"h" * 11 + b"\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("case", FRAMED)
def test_chunks_are_framed_anew(stack: Stack, raw: RawUpstream, case: str) -> None:
    """Extensions stay here, one byte in each write or not; another reader finds one request."""
    agent = provision(stack).agent
    head = request("POST", FILES, [*fields(agent), ("Transfer-Encoding", "chunked")])
    for pieces in ([head + FRAMED[case]], [bytes([byte]) for byte in head + FRAMED[case]]):
        with RawClient(stack.gateway.port) as client:
            for piece in pieces:
                client.send(piece)
            assert client.answer().status == 200
    for received in raw.requests:
        judged = one_request(received.raw)
        assert set(judged.body) <= set(b"hello")
        assert len(judged.body) == (21 if case == "digits of either case" else 5)
        assert b";" not in received.raw.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("data", [b"", b"hello"])
def test_an_old_client_is_answered_and_left(stack: Stack, raw: RawUpstream, data: bytes) -> None:
    """HTTP/1.0 with a length is clear; it reaches the upstream as HTTP/1.1, and no 100 comes."""
    agent = provision(stack).agent
    head = request("POST", FILES, [*fields(agent), ("Expect", "100-continue")], data)
    with RawClient(stack.gateway.port) as client:
        client.send(head.replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = client.read_to_the_end()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert one_answer(answer, "POST", ended=True)
    assert one_request(raw.requests[0].raw).body == data
    assert raw.requests[0].head.split(b"\r\n")[0].endswith(b" HTTP/1.1")


def test_requests_in_one_write_are_answered_in_their_order(stack: Stack, raw: RawUpstream) -> None:
    """Pipelined, with an empty line between them as some clients send: each has its answer."""
    agent = provision(stack).agent
    raw.script = lambda peer: peer.answer(peer.received.target)
    ask = [request("POST", f"{FILES}/{number}", fields(agent), b"x") for number in range(3)]
    with RawClient(stack.gateway.port) as client:
        client.send(b"\r\n".join(ask))
        bodies = [client.answer("POST").body for _ in ask]
    assert bodies == [f"/base/v1/files/{number}".encode() for number in range(3)]


def test_a_length_may_have_space_behind_it(stack: Stack, raw: RawUpstream) -> None:
    """Space around a value is no part of it."""
    agent = provision(stack).agent
    data = request("POST", FILES, [*fields(agent), ("Content-Length", " 5 \t")])
    assert exchange(stack.gateway.port, data + b"hello").status == 200
    assert one_request(raw.requests[0].raw).body == b"hello"


@pytest.mark.parametrize("target", [FILES, CHAT])
def test_a_client_that_asks_first_is_told_to_go_on(
    stack: Stack, raw: RawUpstream, target: str
) -> None:
    """With a length or chunked: 100, then the body is taken; the upstream sees no expectation."""
    agent = provision(stack).agent
    for data in (
        request("POST", target, [*fields(agent), EXPECT], chat()),
        request("POST", target, [*fields(agent), ("Expect", "100-Continue")], chunks=[chat()]),
    ):
        head, _, body = data.partition(b"\r\n\r\n")
        with RawClient(stack.gateway.port) as client:
            client.send(head + b"\r\n\r\n")
            assert client.head().status == 100
            client.send(body)
            assert client.answer("POST").status == 200
    for received in raw.requests:
        assert one_request(received.raw).body == chat()
        assert received.values(b"expect") == []


def test_a_client_that_asks_first_need_not_send_in_vain(stack: Stack, raw: RawUpstream) -> None:
    """No key, too large, no upstream: the answer comes instead of 100, and the connection ends."""
    agent = provision(stack).agent
    length = ("Content-Length", "1000")
    for target, head, status in (
        (FILES, [EXPECT, length], 401),
        (FILES, [*fields(agent), EXPECT, ("Content-Length", "30000000")], 413),
        ("/nothing/x", [*fields(agent), EXPECT, length], 404),
    ):
        with RawClient(stack.gateway.port) as client:
            client.send(request("POST", target, head))
            answer = one_answer(client.read_to_the_end(), "POST", ended=True)
        assert answer.start.status_code == status
        assert answer.values(b"connection") == [b"close"]
    assert raw.requests == []


@pytest.mark.parametrize("body", [None, b"{}"])
def test_another_expectation_is_not_met(stack: Stack, raw: RawUpstream, body: bytes | None) -> None:
    """417 in the provider's shape."""
    agent = provision(stack).agent
    data = request("POST", FILES, [*fields(agent), ("Expect", "a-miracle")], body)
    answer = exchange(stack.gateway.port, data)
    assert answer.status == 417
    assert answer.json()["error"]["code"] == "expectation_failed"
    assert raw.requests == []


@pytest.mark.parametrize(
    ("target", "offer"),
    [
        ("/raw/v1/realtime?model=m", "WebSocket"),
        ("/claude/v1/x", "websocket"),
        ("/raw/v1/realtime", "h2c, websocket/13"),
    ],
)
def test_a_websocket_is_refused_in_words(
    stack: Stack, raw: RawUpstream, target: str, offer: str
) -> None:
    """400 in the provider's shape, at once; nothing is asked or counted."""
    tenant = provision(stack)
    head = [
        *fields(tenant.agent),
        ("Connection", "Upgrade"),
        ("Upgrade", offer),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    answer = exchange(stack.gateway.port, request("GET", target, head))
    assert answer.status == 400
    assert answer.json()["error"]["message"].startswith("WebSocket is not supported")
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}

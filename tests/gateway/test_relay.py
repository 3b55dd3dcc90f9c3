"""Heads both ways: nothing added but what is ours to say, nothing lost but what is hop by hop."""

import gzip

import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import CHAT, FILES, MESSAGES, call, chat, fields, provision
from raw_client import exchange, request
from raw_upstream import JSON_ANSWER, Peer, RawUpstream, answering


def test_request_headers_arrive_in_order_with_repeats(stack: Stack, raw: RawUpstream) -> None:
    """A provider's own fields pass; lines of one name stay apart and in their order."""
    agent = provision(stack).agent
    sent = [
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "one"),
        ("OpenAI-Organization", "org-1"),
        ("anthropic-beta", "two, three"),
        ("Idempotency-Key", "k"),
        ("X-Empty", ""),
        ("Accept", "text/event-stream"),
        ("User-Agent", "Test/1.0 (x; y)"),
        ("Cookie", "a=1; b=2"),
        ("Cookie", "c=3; d=é".encode().decode("latin-1")),
        ("X-Latin", "n\xe9\xff"),
        ("Accept-Encoding", "br, gzip;q=0.5"),
        ("Range", "bytes=0-9"),
        ("If-None-Match", '"x"'),
    ]
    assert exchange(stack.gateway.port, request("GET", FILES, [*sent, *fields(agent)])).status
    (received,) = raw.requests
    added = (b"host", b"authorization", b"content-type")
    kept = [(name, value) for name, value in received.headers if name not in added]
    expected = [(name.lower().encode(), value.encode("latin-1")) for name, value in sent]
    assert kept == expected


def test_nothing_is_added_to_a_bare_request(stack: Stack, raw: RawUpstream) -> None:
    """No user agent, accept, forwarding or tracing field of ours: host and credential alone."""
    agent = provision(stack).agent
    bare = request("GET", FILES, list(agent.bearer.items()))
    assert exchange(stack.gateway.port, bare).status == 200
    assert [name for name, _ in raw.requests[0].headers] == [b"host", b"authorization"]


HOP_BY_HOP = [
    ("Connection", "keep-alive, X-Named"),
    ("Connection", "x-other"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Authorization", "Basic eA=="),
    ("Proxy-Connection", "keep-alive"),
    ("TE", "trailers"),
    ("Trailer", "X-Checksum"),
    ("Upgrade", "h2c"),
    ("X-Named", "1"),
    ("X-Other", "1"),
]


def test_hop_by_hop_request_headers_stay_here(stack: Stack, raw: RawUpstream) -> None:
    """RFC 9110 section 7.6.1, and what `Connection` names, in any of its lines."""
    agent = provision(stack).agent
    sent = [*fields(agent), *HOP_BY_HOP, ("X-Stays", "1")]
    assert exchange(stack.gateway.port, request("GET", FILES, sent)).status == 200
    names = {name for name, _ in raw.requests[0].headers}
    assert names == {b"host", b"authorization", b"content-type", b"x-stays"}


def test_answer_headers_arrive_in_order_with_repeats(stack: Stack, raw: RawUpstream) -> None:
    """Names keep their spelling and repeated fields their lines; hop-by-hop ones stay behind."""
    agent = provision(stack).agent
    theirs = [
        b"X-Odd-Case: 1",
        b"Set-Cookie: a=1; Path=/",
        b"set-cookie: b=2",
        b"Link: <x>",
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT",
        b"Server: theirs",
        b"x-latin: n\xe9",
        b"X-Empty: ",
        b"x-request-id: theirs",
    ]
    dropped = [f"{name}: {value}".encode() for name, value in HOP_BY_HOP]
    raw.script = answering(b"x", *theirs, *dropped)
    answer = call(stack, agent, FILES)
    framing = ("content-length", "connection", "keep-alive")
    kept = [f"{name}: {value}".encode("latin-1") for name, value in answer.headers]
    kept = [line for line in kept if line.split(b":")[0].lower().decode() not in framing]
    assert kept == theirs


def test_the_upstreams_key_reaches_no_caller(stack: Stack, raw: RawUpstream) -> None:
    """Neither in a relayed answer nor in one of ours, whatever the upstream does."""
    agent = provision(stack).agent
    heads = []
    for script in (Peer.json, answering(b"{}", status=b"401 Unauthorized"), Peer.close):
        raw.script = script
        answer = call(stack, agent, CHAT, chat())
        heads.append(repr(answer.headers) + repr(answer.body))
    assert "sk-upstream-secret" not in "".join(heads) + stack.gateway.log


@pytest.mark.parametrize("path", [CHAT, FILES])
def test_a_compressed_answer_is_passed_on_as_it_is(
    stack: Stack, raw: RawUpstream, path: str
) -> None:
    """The bytes and the encoding are the upstream's; the usage inside is counted all the same."""
    tenant = provision(stack)
    packed = gzip.compress(JSON_ANSWER)
    raw.script = answering(packed, b"Content-Encoding: gzip", b"Content-Type: application/json")
    answer = call(stack, tenant.agent, path, chat(), headers={"Accept-Encoding": "gzip, br, zstd"})
    assert answer.body == packed
    assert answer.get("content-encoding") == "gzip"
    assert answer.get("content-length") == str(len(packed))
    assert Counters(stack, tenant).settled(7)
    assert raw.requests[0].values(b"accept-encoding") == [b"gzip, br, zstd"]


def test_interim_answers_do_not_end_the_exchange(stack: Stack, raw: RawUpstream) -> None:
    """A 103 in front of the answer is not taken for it."""
    agent = provision(stack).agent

    def script(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")
        peer.json()

    raw.script = script
    answer = call(stack, agent, CHAT, chat())
    assert (answer.status, answer.body) == (200, JSON_ANSWER)


def test_every_relayed_answer_has_a_request_id(stack: Stack, raw: RawUpstream) -> None:
    """The upstream's where it sends one, else one of ours, in the family's own field."""
    agent = provision(stack).agent
    for path, name in ((CHAT, "x-request-id"), (MESSAGES, "request-id")):
        raw.script = Peer.json
        ours = call(stack, agent, path, chat()).get(name)
        assert ours is not None
        assert ours.startswith("req_")
        raw.script = answering(b"{}", name.encode() + b": theirs")
        assert call(stack, agent, path, chat()).get(name) == "theirs"

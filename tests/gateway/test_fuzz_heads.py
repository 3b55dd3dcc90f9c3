"""Bytes that may be a request or not: each gets an answer or waits for its rest, and no 5xx.

IBEX_FUZZ_EXAMPLES in the environment sets how many are tried.
"""

import os
from typing import NamedTuple

import h11
from gateway_stack import Stack
from http_judge import LONGEST_HEAD, one_request
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from raw_calls import provision
from raw_client import RawClient
from raw_upstream import RawUpstream

EXAMPLES = settings(
    max_examples=int(os.environ.get("IBEX_FUZZ_EXAMPLES", "500")),
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink what hangs would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PROMPTLY_S = 5.0
KEY = b"Authorization: Bearer KEY"
ODD = st.sampled_from([bytes([byte]) for byte in range(256)])
LINE_ENDS = st.sampled_from([b"\r\n"] * 20 + [b"\n", b"\r", b"\r\r\n", b"\r\n ", b"\x0b", b""])
METHODS = st.sampled_from(
    b"GET|POST|HEAD|PUT|DELETE|OPTIONS|CONNECT|TRACE|get||PRI|G\xe9T".split(b"|")
)
TARGETS = st.sampled_from(
    b"/raw/v1/files|/raw/v1/chat/completions|/claude/v1/messages|/limits|/healthz|/||*|//|/raw|"
    b"/raw/|/raw/?|/raw/%|/raw/%zz|/raw/v1/../x|/nothing/x|http://evil.test/raw/v1/x|[::1]|"
    b"evil.test:443|/raw/\xff|/raw/[|/graphql|/v1/organizations/x/rate-limits|/dashboard|http://[|"
    b"/raw/v1/a b".split(b"|")
)
VERSIONS = st.sampled_from(
    [b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2", b"HTTP/1.", b"http/1.1", b"", b"HTTP/1.1 x"]
)
FIELDS = st.sampled_from(
    [KEY] * 3
    + [b"Host: x"] * 2
    + b"Host:|Host: y|Host: a b|Expect: 100-continue|Expect: x|Connection: close|Upgrade: h2c|"
    b"Connection: upgrade, host, content-length|Upgrade: websocket|Content-Type: application/json|"
    b"X-A: \xff\xfe|X-A:\x00|Cookie: a=b|Accept-Encoding: gzip;q=0, *;q=x|TE: trailers|Trailer: x|"
    b"X-\xc3\xa9: 1|X A: 1|: x|x|Authorization : Bearer KEY|x-api-key: KEY|Range: bytes=0-".split(
        b"|"
    )
)
LENGTHS = st.sampled_from(
    b"0|2|9|02|+2|-2|2, 2| 2 |0x2|\xd9\xa2|1e1||999999999999999999999".split(b"|")
)
CODINGS = st.sampled_from(
    b"chunked|Chunked|gzip, chunked|chunked, chunked|\x0bchunked|identity".split(b"|")
)
FRAMINGS = st.one_of(
    st.just(b""),
    LENGTHS.map(b"Content-Length: ".__add__),
    CODINGS.map(b"Transfer-Encoding: ".__add__),
    st.tuples(LENGTHS, CODINGS).map(
        lambda pair: b"Content-Length: %b\r\nTransfer-Encoding: %b" % pair
    ),
)
BODIES = st.sampled_from(
    b'|{}|{"messages":[]}|2\r\n{}\r\n0\r\n\r\n|2\r\n{}\r\n0\r\nX: 1\r\n\r\n|2\n{}\n0\n\n|'
    b"g\r\n{}\r\n0\r\n\r\n|2;x\r\n{}\r\n0\r\n\r\n|0\r\n\r\n|"
    b"GET /raw/v1/y HTTP/1.1\r\nHost: x\r\n\r\n".split(b"|")
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Nearly requests, some with bytes put in, taken out or replaced."""
    end = draw(LINE_ENDS)
    fields = draw(st.lists(FIELDS, max_size=6))
    if draw(st.integers(0, 3)):
        fields = [b"Host: x", KEY, *fields]
    if framing := draw(FRAMINGS):
        fields.insert(draw(st.integers(0, len(fields))), framing)
    first = b" ".join([draw(METHODS), draw(TARGETS), draw(VERSIONS)])
    data = bytearray(b"\r\n".join([first, *fields]) + end + b"\r\n" + draw(BODIES))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = draw(ODD)
    return bytes(data)


class Reading(NamedTuple):
    """How many whole requests another reader finds, and whether it then refuses or wants more."""

    whole: int
    refused: bool


def reading(data: bytes) -> Reading:
    server = h11.Connection(h11.SERVER, LONGEST_HEAD)
    server.receive_data(data)
    whole = 0
    try:
        while True:
            event = server.next_event()
            if event is h11.NEED_DATA:
                return Reading(whole, refused=False)
            if event is h11.PAUSED or isinstance(event, h11.EndOfMessage):
                whole += isinstance(event, h11.EndOfMessage)
                if not server.trailing_data[0]:
                    return Reading(whole, refused=False)
                server.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
                server.send(h11.EndOfMessage())
                if server.our_state is not h11.DONE:
                    return Reading(whole, refused=False)
                server.start_next_cycle()
    except h11.RemoteProtocolError:
        return Reading(whole, refused=True)


def test_whatever_comes_has_one_answer_or_none(stack: Stack, raw: RawUpstream) -> None:
    """What another reader takes for whole or for wrong is answered at once, below 500, and what
    reaches the upstream is one clear request each.
    """
    tenant = provision(stack)
    key = tenant.agent.key.encode()

    @EXAMPLES
    @given(requests())
    def answered(template: bytes) -> None:
        note(repr(template))
        data = template.replace(b"KEY", key)
        raw.requests.clear()
        whole, refused = reading(data)
        with RawClient(stack.gateway.port, timeout_s=PROMPTLY_S) as client:
            client.send(data)
            if not whole and not (refused and b"\r\n\r\n" in data):
                return  # the rest may come
            method = data.partition(b" ")[0].decode("latin-1")
            answer = client.answer(method)
            while answer.status == 100:
                answer = client.answer(method)
            assert answer.ended
            assert 200 <= answer.status < 500
            assert answer.get("ibex-limiter") is None
        for received in raw.requests:
            assert one_request(received.raw)
            assert key not in received.raw

    answered()
    assert stack.gateway.get("/healthz") == (200, {"status": "ok"})

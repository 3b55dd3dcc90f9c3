"""Answers of upstreams that may be answers or not: each is passed on, or is a 502, and settled.

IBEX_FUZZ_EXAMPLES in the environment sets how many are tried.
"""

import gzip
import os

import brotli
from counters import Counters
from gateway_stack import Stack
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from raw_calls import CHAT, FILES, MESSAGES, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import Peer, RawUpstream
from servers import eventually

EXAMPLES = settings(
    max_examples=int(os.environ.get("IBEX_FUZZ_EXAMPLES", "300")),
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink what hangs would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PROMPTLY_S = 5.0
STATUSES = st.sampled_from(
    [b"200 OK"] * 6
    + b"201 x|204 x|206 x|205 x|304 x|401 x|429 x|500 x|599 x|200|20 x|600 x".split(b"|")
)
TYPES = st.sampled_from(
    [b"application/json", b"text/event-stream"] * 3
    + b"text/event-stream; charset=utf-8|TEXT/EVENT-STREAM|text/html|;|\xff|a, b|audio/mpeg|".split(
        b"|"
    )
)
CODINGS = st.sampled_from(
    b"gzip|GZIP|br|zstd|deflate|compress|aws-chunked|identity|gzip, br|br, x|,|\xff||x, x, x, x"
    b"".split(b"|")
)
BODIES = st.sampled_from(
    [
        b"", b"{}", b"null", b'{"error":{}}', b"data: {}\n\n", b"data: [DONE]\n\n", b"\xff\x00\r\n",
        b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}', b'data: {"usage":{}}', b": x\r\r",
        b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n',
        b'event: error\ndata: {"type":"error"}\n\n',
    ]
)  # fmt: skip
PACKED = st.one_of(BODIES, BODIES.map(gzip.compress), BODIES.map(brotli.compress))
FIELDS = st.sampled_from(
    b"Connection: close|Connection: x, content-type|Keep-Alive: x|Trailer: x|Upgrade: h2c|X: \xe9|"
    b"Set-Cookie: a=b|Retry-After: |x-request-id: |Content-Length: 5|Content-Length: -1|X:y|: z|"
    b"Transfer-Encoding: gzip|x-ratelimit-limit-requests: \xff|Date: |Content-Type: a/b|"
    b"X: \x01".split(b"|")
)


def chunked(body: bytes, cut: int) -> bytes:
    pieces = [piece for piece in (body[:cut], body[cut:]) if piece]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Nearly answers, some with a byte put in, taken out or replaced, or cut short."""
    body, lines = draw(PACKED), draw(st.lists(FIELDS, max_size=2))
    lines += [b"Content-Type: " + draw(TYPES)] if draw(st.integers(0, 5)) else []
    lines += [b"Content-Encoding: " + draw(CODINGS)] if draw(st.booleans()) else []
    framing = draw(st.sampled_from(["length", "chunks", "end"]))
    if framing == "length":
        lines.append(b"Content-Length: %d" % len(body))
    elif framing == "chunks":
        lines.append(b"Transfer-Encoding: chunked")
        body = chunked(body, draw(st.integers(0, 40)))
    head = b"\r\n".join([b"HTTP/1.1 " + draw(STATUSES), *lines])
    data = bytearray(head + b"\r\n\r\n" + body)
    if not draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 2))] = bytes([draw(st.integers(0, 255))])
    if not draw(st.integers(0, 5)):
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


def test_whatever_an_upstream_answers_is_passed_on_or_is_its_failure(
    stack: Stack, raw: RawUpstream
) -> None:
    """The client reads its status or a 502, at once; nothing stays held, no failure is ours."""
    tenant = provision(stack)

    @EXAMPLES
    @given(
        answers(), st.sampled_from([CHAT, MESSAGES, FILES, "/raw/v1/responses"]), st.booleans(),
        st.sampled_from(["GET", "POST", "HEAD"]),
    )  # fmt: skip
    def relayed(data: bytes, target: str, is_stream: bool, method: str) -> None:
        note(repr((data, target, is_stream, method)))

        def script(peer: Peer) -> None:
            peer.send(data)
            peer.close()

        raw.script = script
        body = chat(stream=is_stream) if method == "POST" else None
        with RawClient(stack.gateway.port, timeout_s=PROMPTLY_S) as client:
            client.send(request(method, target, fields(tenant.agent), body))
            answer = client.answer(method)
        assert answer.status == 502 or b" %d" % answer.status in data

    relayed()
    assert eventually(lambda: Counters(stack, tenant).open() == 0)

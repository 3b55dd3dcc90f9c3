"""Request bodies on their way: whole, in pieces, too large, broken off."""

import gzip
import time

import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import CHAT, call, chat, fields, provision
from raw_client import Answer, RawClient, exchange, request
from raw_upstream import RawUpstream, answering
from servers import eventually

LARGEST = 20_000_000
"""REQUEST_MAX_BYTES of the session's gateway."""
UPLOAD = "/raw/v1/files"
BINARY = bytes(range(256)) * 20_480  # 5 MB, every byte, and \r\n inside

BOUNDARY = b"--odd'()+_,-./:=? boundary"
MULTIPART = (
    b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n" + BINARY + b"\r\n--" + BOUNDARY + b"\r\n"
    b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--' + BOUNDARY + b"--\r\n"
)
MULTIPART_TYPE = {"Content-Type": f'multipart/form-data; boundary="{BOUNDARY.decode()}"'}


TRANSCRIPT = "Guten Tag, 你好.\n".encode()


def pieces(data: bytes, size: int = 65_536) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("path", [UPLOAD, "/raw/v1/audio/transcriptions"])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_upload_arrives_byte_for_byte(
    stack: Stack, raw: RawUpstream, path: str, chunked: bool
) -> None:
    """Five megabytes of multipart, boundary and framing untouched; a length stays a length. The
    answer may be plain text.
    """
    agent = provision(stack).agent
    head = fields(agent, MULTIPART_TYPE)
    data = (
        request("POST", path, head, chunks=pieces(MULTIPART))
        if chunked
        else request("POST", path, head, MULTIPART)
    )
    raw.script = answering(TRANSCRIPT, b"Content-Type: text/plain; charset=utf-8")
    answer = exchange(stack.gateway.port, data)
    assert (answer.status, answer.body) == (200, TRANSCRIPT)
    assert answer.get("content-type") == "text/plain; charset=utf-8"
    (received,) = raw.requests
    assert received.body == MULTIPART
    assert received.values(b"content-type") == [MULTIPART_TYPE["Content-Type"].encode()]
    length = [] if chunked else [str(len(MULTIPART)).encode()]
    assert received.values(b"content-length") == length
    assert received.values(b"transfer-encoding") == ([b"chunked"] if chunked else [])


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_an_empty_body_stays_empty(stack: Stack, raw: RawUpstream, method: str) -> None:
    """A length of 0 is passed on, no length stays none, and an empty chunked body is empty."""
    agent = provision(stack).agent
    bodies = [{"body": b""}, {}, {"chunks": []}]
    for body in bodies:
        data = request(method, UPLOAD, fields(agent), **body)  # type: ignore[arg-type]
        assert exchange(stack.gateway.port, data).status == 200
    assert [received.body for received in raw.requests] == [b"", b"", b""]
    assert raw.requests[0].values(b"content-length") == [b"0"]


def test_a_metered_body_is_sent_as_it_came(stack: Stack, raw: RawUpstream) -> None:
    """Spacing, order, escapes and unknown members are the client's, in pieces or not."""
    agent = provision(stack).agent
    body = b'{ "messages" : [ ],\n "z":1e2, "a":"\\u00e9\xc3\xa9", "stream": false }\n'
    assert call(stack, agent, CHAT, body).status == 200
    chunked = request("POST", CHAT, fields(agent), chunks=pieces(body, 3))
    assert exchange(stack.gateway.port, chunked).status == 200
    assert [received.body for received in raw.requests] == [body, body]
    for received in raw.requests:
        assert received.values(b"content-length") == [str(len(body)).encode()]
        assert received.values(b"transfer-encoding") == []


@pytest.mark.parametrize("path", [CHAT, UPLOAD])
def test_a_body_that_says_it_is_too_large_is_refused_unread(
    stack: Stack, raw: RawUpstream, path: str
) -> None:
    """413 by its length alone: nothing is read, forwarded or counted."""
    tenant = provision(stack)
    head = request("POST", path, [*fields(tenant.agent), ("Content-Length", str(LARGEST + 1))])
    with RawClient(stack.gateway.port) as client:
        client.send(head)
        answer = client.answer()
    assert answer.status == 413
    assert answer.json()["error"]["code"] == "request_too_large"
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


def too_large(stack: Stack, path: str, head: list[tuple[str, str]]) -> Answer:
    """Send more than is taken, in chunks; the answer may come before all is sent."""
    piece = b"x" * 1_000_000
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", path, head, chunks=[])[: -len(b"0\r\n\r\n")])
        for _ in range(LARGEST // len(piece) + 1):
            client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        return client.answer()


def test_a_metered_body_that_grows_too_large_is_refused(stack: Stack, raw: RawUpstream) -> None:
    """413 without a declared length too, before anything is counted."""
    tenant = provision(stack)
    answer = too_large(stack, CHAT, fields(tenant.agent))
    assert answer.status == 413
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


def test_an_upload_that_grows_too_large_is_cut_off(stack: Stack, raw: RawUpstream) -> None:
    """413, the upstream never sees a whole request, and no token is charged."""
    tenant = provision(stack)
    before = raw.open_connections
    answer = too_large(stack, UPLOAD, fields(tenant.agent))
    assert answer.status == 413
    assert raw.requests == []
    assert eventually(lambda: raw.open_connections <= before)
    assert Counters(stack, tenant).settled(0)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_refusal_is_heard_by_who_still_sends(
    stack: Stack, raw: RawUpstream, chunked: bool
) -> None:
    """It comes before the upload is read; a connection that just broke would be no answer."""
    agent = provision(stack).agent
    framed = {"chunks": pieces(BINARY)} if chunked else {"body": BINARY}
    for target, head, status in (
        (UPLOAD, [], 401),
        ("/nothing/v1/files", fields(agent), 404),
        ("/raw/../v1/files", fields(agent), 400),
        ("/unkeyed/v1/files", fields(agent), 503),
    ):
        data = request("POST", target, head, **framed)  # type: ignore[arg-type]
        answer = exchange(stack.gateway.port, data)
        assert (answer.status, answer.ended) == (status, True)
    assert raw.requests == []


def test_an_upload_of_the_largest_size_passes(stack: Stack, raw: RawUpstream) -> None:
    """The bound itself is taken, with a length or in chunks, and not a byte more."""
    agent = provision(stack).agent
    for more, status in ((b"", 200), (b"y", 413)):
        chunks = [*pieces(b"x" * LARGEST, 1_000_000), more] if more else [b"x" * LARGEST]
        data = request("POST", UPLOAD, fields(agent), chunks=chunks)
        assert exchange(stack.gateway.port, data).status == status
    assert [len(received.body) for received in raw.requests] == [LARGEST]
    raw.requests.clear()
    assert call(stack, agent, UPLOAD, b"x" * LARGEST).status == 200
    assert len(raw.requests[0].body) == LARGEST


@pytest.mark.parametrize("path", [CHAT, UPLOAD])
def test_a_request_that_breaks_off_reaches_no_upstream_whole(
    stack: Stack, raw: RawUpstream, path: str
) -> None:
    """The client leaves within its body: nothing is charged, nothing stays open."""
    tenant = provision(stack)
    before = raw.open_connections
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", path, fields(tenant.agent), chat() + b" " * 1000)[:-500])
        time.sleep(0.1)
    counters = Counters(stack, tenant)
    assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 0)
    assert counters.settled(0)
    assert raw.requests == []
    assert eventually(lambda: raw.open_connections <= before)


def test_an_upload_is_not_held_back_until_it_is_whole(stack: Stack, raw: RawUpstream) -> None:
    """The upstream hears of a slow upload while the client is still sending it."""
    agent = provision(stack).agent
    before = raw.connections, raw.open_connections
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", UPLOAD, [*fields(agent), ("Content-Length", "10")]) + b"01234")
        assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 1)
        assert eventually(lambda: (raw.connections, raw.open_connections) >= before)
        client.send(b"56789")
        assert client.answer().status == 200
    assert raw.requests[0].body == b"0123456789"


def test_a_client_that_expects_it_is_told_to_continue(stack: Stack, raw: RawUpstream) -> None:
    """`Expect: 100-continue` is answered here, and not passed on."""
    agent = provision(stack).agent
    body = chat()
    head = [*fields(agent), ("Expect", "100-continue"), ("Content-Length", str(len(body)))]
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", CHAT, head))
        assert client.head().status == 100
        client.send(body)
        assert client.answer().status == 200
    assert raw.requests[0].values(b"expect") == []
    assert raw.requests[0].body == body


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "zstd", "identity, gzip", "nonsense"])
def test_a_compressed_metered_request_is_refused(
    stack: Stack, raw: RawUpstream, encoding: str
) -> None:
    """What cannot be read cannot be counted: 415 says what is read, and nothing is forwarded."""
    tenant = provision(stack)
    body = gzip.compress(chat(stream=True))
    answer = call(stack, tenant.agent, CHAT, body, headers={"Content-Encoding": encoding})
    assert answer.status == 415
    assert answer.get("accept-encoding") == "identity"
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


def test_a_compressed_upload_is_passed_on_as_it_is(stack: Stack, raw: RawUpstream) -> None:
    """What is not read here is not changed here; plain encodings are no encodings."""
    agent = provision(stack).agent
    body = gzip.compress(BINARY)
    headers = {"Content-Encoding": "gzip"}
    assert call(stack, agent, UPLOAD, body, headers=headers).status == 200
    assert raw.requests[0].body == body
    assert raw.requests[0].values(b"content-encoding") == [b"gzip"]
    headers = {"Content-Encoding": "identity"}
    assert call(stack, agent, CHAT, chat(), headers=headers).status == 200

"""Statuses: relayed with what belongs to them, whether they are good news or not."""

import brotli
import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import CHAT, FILES, MESSAGES, call, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import RawUpstream, answering

STATUSES = [
    b"200 OK",
    b"201 Created",
    b"206 Partial Content",
    b"301 Moved Permanently",
    b"307 Temporary Redirect",
    b"400 Bad Request",
    b"401 Unauthorized",
    b"404 Not Found",
    b"429 Too Many Requests",
    b"500 Internal Server Error",
    b"503 Service Unavailable",
    b"529 Site is overloaded",
]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize(
    ("path", "is_stream"),
    [(FILES, False), (CHAT, False), (CHAT, True), (MESSAGES, False), (MESSAGES, True)],
)
def test_a_status_is_relayed_with_its_body_and_headers(
    stack: Stack, raw: RawUpstream, status: bytes, path: str, is_stream: bool
) -> None:
    """Errors are the provider's own, redirects are not followed, and nothing is asked twice."""
    tenant = provision(stack)
    theirs = [b"Location: http://evil.test/", b"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"]
    body = b"<html>their \xff answer</html>"
    raw.script = answering(body, b"Content-Type: text/html", *theirs, status=status)
    answer = call(stack, tenant.agent, path, chat(stream=is_stream))
    assert answer.status == int(status[:3])
    assert answer.body == body
    assert answer.get("content-type") == "text/html"
    assert answer.get("location") == "http://evil.test/"
    assert answer.get("retry-after") == "Wed, 21 Oct 2026 07:28:00 GMT"
    assert answer.get("content-length") == str(len(body))
    assert answer.get("ibex-denied-by") is None
    assert len(raw.requests) == 1
    assert Counters(stack, tenant).settled(0)


def test_the_upstreams_own_limits_are_relayed(stack: Stack, raw: RawUpstream) -> None:
    """A 429 of the provider keeps every field, and is told from ours by what it lacks."""
    tenant = provision(stack, agent_rpm=10, tokens=1000)
    for path, prefix in ((CHAT, b"x-ratelimit-"), (MESSAGES, b"anthropic-ratelimit-")):
        theirs = [
            b"Retry-After: 30",
            b"retry-after-ms: 29500",
            prefix + b"limit-requests: 7",
            prefix + b"remaining-requests: 0",
        ]
        raw.script = answering(b"{}", *theirs, status=b"429 Too Many Requests")
        answer = call(stack, tenant.agent, path, chat())
        family = [
            f"{name}: {value}".encode()
            for name, value in answer.headers
            if name.lower().startswith(("retry-after", prefix.decode()))
        ]
        assert family == theirs
        assert answer.get("ibex-denied-by") is None
        assert (
            answer.get(
                "ratelimit-policy",
            )
            is not None
        )


@pytest.mark.parametrize(
    "status", [b"204 No Content", b"204 x\r\nContent-Length: 0", b"304 Not Modified"]
)
def test_a_status_without_a_body_has_none(stack: Stack, raw: RawUpstream, status: bytes) -> None:
    """The connection stays usable: no byte follows such a head."""
    agent = provision(stack).agent
    head = b"HTTP/1.1 " + status + b'\r\nETag: "x"\r\nContent-Encoding: br\r\n\r\n'
    raw.script = lambda peer: peer.send(head)
    with RawClient(stack.gateway.port) as client:
        for method, path in (("GET", FILES), ("HEAD", FILES), ("POST", CHAT), ("POST", MESSAGES)):
            body = chat(stream=True) if method == "POST" else None
            client.send(request(method, path, fields(agent), body))
            answer = client.answer(method)
            assert answer.status == int(status[:3])
            assert (answer.get("etag"), answer.get("content-encoding")) == ('"x"', "br")
            for name in ("transfer-encoding", "content-length", "content-type"):
                assert answer.get(name) is None


def test_not_modified_may_tell_the_length_of_what_it_stands_for(
    stack: Stack, raw: RawUpstream
) -> None:
    """RFC 9110 section 8.6: passed on, and nobody waits for so many bytes."""
    agent = provision(stack).agent
    raw.script = lambda peer: peer.send(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n")
    with RawClient(stack.gateway.port) as client:
        for method in ("GET", "HEAD", "GET"):
            client.send(request(method, FILES, fields(agent)))
            answer = client.answer(method)
            assert (answer.status, answer.get("content-length")) == (304, "9")


def test_a_head_request_has_the_length_and_no_body(stack: Stack, raw: RawUpstream) -> None:
    """HEAD tells length and encoding of what GET would give, and the connection stays usable."""
    agent = provision(stack).agent
    packed = brotli.compress(b"x" * 1000)
    for body, *encoding in ((b"x" * 1000,), (packed, b"Content-Encoding: br")):
        raw.script = answering(body, b"Content-Type: text/plain", *encoding)
        with RawClient(stack.gateway.port) as client:
            for method in ("HEAD", "GET", "HEAD"):
                client.send(request(method, FILES, fields(agent, {"Accept-Encoding": "br"})))
                answer = client.answer(method)
                assert (answer.status, answer.get("content-length")) == (200, str(len(body)))
                assert answer.get("content-encoding") == ("br" if encoding else None)
                assert answer.body == (body if method == "GET" else b"")


def test_no_content_type_stays_none(stack: Stack, raw: RawUpstream) -> None:
    """None is guessed, with a body or without one."""
    agent = provision(stack).agent
    for body in (b"{}", b""):
        raw.script = answering(body)
        answer = call(stack, agent, FILES)
        assert answer.get("content-type") is None
        assert answer.body == body
        assert answer.get("content-length") == str(len(body))


ODD_ANSWERS: dict[str, tuple[bytes, bytes, bytes]] = {
    "html error": (b"502 Bad Gateway", b"text/html", b"<html>bad</html>"),
    "html": (b"200 OK", b"text/html", b"<html>fine</html>"),
    "empty": (b"200 OK", b"application/json", b""),
    "no event": (b"200 OK", b"text/event-stream", b""),
    "array": (b"200 OK", b"application/json", b'[{"usage":{"prompt_tokens":9}}]'),
    "null": (b"200 OK", b"application/json", b"null"),
    "invalid utf-8": (b"502 Bad Gateway", b"application/json", b'{"a":"\xff"}'),
    "error as json": (b"500 Oops", b"application/json", b'{"error": {"message": "x"}}'),
    "usage of a wrong type": (b"500 Oops", b"application/json", b'{"usage":"many"}'),
}


@pytest.mark.parametrize("case", ODD_ANSWERS)
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_that_no_model_gave_is_relayed_and_free(
    stack: Stack, raw: RawUpstream, case: str, path: str, is_stream: bool
) -> None:
    """Whatever the upstream sends arrives as it is; no tokens, and no failure of ours."""
    tenant = provision(stack)
    status, content_type, document = ODD_ANSWERS[case]
    raw.script = lambda peer: peer.answer(document, b"Content-Type: " + content_type, status=status)
    answer = call(stack, tenant.agent, path, chat(stream=is_stream))
    assert (answer.status, answer.body) == (int(status[:3]), document)
    assert Counters(stack, tenant).settled(0)

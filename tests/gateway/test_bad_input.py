"""What is wrong with a request is the client's to hear: never a 500, never a charge."""

import json

import pytest
from counters import Counters
from gateway_stack import Stack
from raw_calls import CHAT, MESSAGES, call, fields, provision
from raw_client import RawClient, exchange, request
from raw_upstream import RawUpstream

METERED = [
    CHAT,
    "/raw/v1/completions",
    "/raw/v1/responses",
    "/raw/v1/embeddings",
    MESSAGES,
]

UNREADABLE = {
    "empty": b"",
    "blank": b" \n",
    "cut": b"{",
    "array": b"[]",
    "null": b"null",
    "text": b'"text"',
    "number": b"1",
    "not json": b"model=gpt&stream=true",
    "NaN": b'{"messages":NaN}',
    "two values": b"{}{}",
    "trailing comma": b'{"a":1,}',
    "invalid utf-8": b'{"messages":"\xff"}',
    "invalid utf-8 in an unknown member": b'{"x":"\xff"}',
    "utf-16": '{"messages":[]}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "number that no double holds": b'{"messages":[],"max_tokens":1e999}',
    "lone surrogate": b'{"messages":["\\ud800"]}',
    "too deep": b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep in an unknown member": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_metered_body_that_cannot_be_read_is_refused(
    stack: Stack, raw: RawUpstream, case: str
) -> None:
    """400 in the provider's shape, nothing forwarded, nothing counted at any level."""
    tenant = provision(stack)
    for path in METERED:
        answer = call(stack, tenant.agent, path, UNREADABLE[case])
        assert answer.status == 400
        error = answer.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"].startswith("The request body is")
        assert path == MESSAGES or error["code"] == "invalid_json"
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


ODD = {
    "no members": b"{}",
    "duplicate members": b'{"stream":true,"messages":[],"stream":false}',
    "stream is text": b'{"messages":[],"stream":"true"}',
    "stream is a number": b'{"messages":[],"stream":1}',
    "all of a wrong type": b'{"messages":7,"max_tokens":"9","n":[],"stream":{},"tools":0}',
    "options of a wrong type": b'{"messages":[],"stream":true,"stream_options":[]}',
    "numbers out of bounds": b'{"messages":[],"max_tokens":99999999999999999999,"n":-5}',
}


@pytest.mark.parametrize("case", ODD)
def test_what_can_be_read_is_the_providers_to_judge(
    stack: Stack, raw: RawUpstream, case: str
) -> None:
    """A JSON object is passed on byte for byte, however odd, and its usage is counted."""
    tenant = provision(stack)
    for path in METERED:
        call(stack, tenant.agent, path, ODD[case])
    bodies = [received.body for received in raw.requests]
    assert bodies == [ODD[case]] * len(METERED)


def test_the_content_type_of_a_request_does_not_matter(stack: Stack, raw: RawUpstream) -> None:
    """A body without a type, or with a wrong one, is metered all the same."""
    tenant = provision(stack)
    body = b'{"messages":[]}'
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"Content-Type": content_type}
        assert call(stack, tenant.agent, CHAT, body, headers=headers).status == 200
    bare = request("POST", CHAT, list(tenant.agent.bearer.items()), body)
    assert exchange(stack.gateway.port, bare).status == 200
    assert raw.requests[-1].values(b"content-type") == []
    assert Counters(stack, tenant).settled(4 * 7)


MALFORMED = {
    "no http": b"GARBAGE\r\n\r\n",
    "no version": b"GET /raw/v1/x\r\n\r\n",
    "http/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "header without colon": b"GET /raw/v1/x HTTP/1.1\r\nHost: x\r\nbroken\r\n\r\n",
    "length is a word": b"POST /raw/v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "length is negative": b"POST /raw/v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "chunk size is a word": b"POST /raw/v1/x HTTP/1.1\r\nHost: x\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_no_http_is_refused(stack: Stack, raw: RawUpstream, case: str) -> None:
    """400 and the end of the connection, with a key or without one."""
    agent = provision(stack).agent
    key = f"Authorization: Bearer {agent.key}\r\n".encode()
    for data in (MALFORMED[case], MALFORMED[case].replace(b"Host: x\r\n", b"Host: x\r\n" + key)):
        with RawClient(stack.gateway.port) as client:
            client.send(data)
            assert client.answer().status in (400, 401)
            assert client.is_closed()
    assert raw.requests == []


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4, 5",
        "Content-Length: +4",
        "Content-Length: 0_4",
        "Content-Length: 0x4",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked\r\nContent-Length: 4",
        "Transfer-Encoding : chunked",
    ],
)
def test_an_ambiguous_framing_is_refused(stack: Stack, raw: RawUpstream, framing: str) -> None:
    """Where two servers could see two different ends of a body, nothing is forwarded."""
    agent = provision(stack).agent
    name, value = framing.split(": ", 1)
    smuggled = b"0\r\n\r\n" + request("GET", "/raw/v1/smuggled", fields(agent))
    with RawClient(stack.gateway.port) as client:
        client.send(request("POST", "/raw/v1/x", [*fields(agent), (name, value)]) + smuggled)
        assert client.answer().status == 400
        client.read_to_the_end()
    assert raw.requests == []


def test_a_head_that_is_too_large_is_refused(stack: Stack, raw: RawUpstream) -> None:
    """431 for one long header, many headers, or a long target; a head below the bound passes."""
    agent = provision(stack).agent
    long = [("X-Long", "x" * 17_000)]
    many = [(f"X-{number}", "x" * 100) for number in range(200)]
    for head, path in ((long, "/raw/v1/x"), (many, "/raw/v1/x"), ([], "/raw/" + "x" * 17_000)):
        answer = exchange(stack.gateway.port, request("GET", path, [*fields(agent), *head]))
        assert answer.status == 431
        assert json.loads(answer.body)["error"]["type"]
    assert raw.requests == []
    fits = [*fields(agent), ("X-Long", "x" * 15_000)]
    assert exchange(stack.gateway.port, request("GET", "/raw/v1/x", fits)).status == 200
    assert raw.requests[0].values(b"x-long") == [b"x" * 15_000]


ODD_FIELDS = {
    "space before the colon": b"Authorization : Bearer x",
    "space within the name": b"X Y: 1",
    "no name": b": 1",
    "folded line": b"X-A: 1\r\n X-B: 2",
    "folded line without colon": b"X-A: 1\r\n more",
    "control in the name": b"X\x01Y: 1",
    "no ascii in the name": "X-é: 1".encode(),
    "line feed in the value": b"X-A: 1\nX-B: 2",
    "carriage return in the value": b"X-A: 1\rX-B: 2",
    "NUL in the value": b"X-A: 1\x002",
}


@pytest.mark.parametrize("case", ODD_FIELDS)
def test_a_field_that_two_servers_may_read_differently_is_refused(
    stack: Stack, raw: RawUpstream, case: str
) -> None:
    """What a lenient upstream could take for another field, such as a key, is not passed on."""
    tenant = provision(stack)
    data = request("GET", "/raw/v1/x", fields(tenant.agent))
    with RawClient(stack.gateway.port) as client:
        client.send(data.replace(b"\r\n\r\n", b"\r\n" + ODD_FIELDS[case] + b"\r\n\r\n"))
        assert client.answer().status == 400
    assert raw.requests == []
    assert Counters(stack, tenant).everything() == {}


def test_header_values_beyond_ascii_are_passed_on(stack: Stack, raw: RawUpstream) -> None:
    """UTF-8, tabs and empty values reach the upstream as they are."""
    agent = provision(stack).agent
    data = request("GET", "/raw/v1/x", [*fields(agent), ("X-Odd", "VALUE")])
    values = ["né 你".encode(), b"tab\tin", b""]
    for value in values:
        assert exchange(stack.gateway.port, data.replace(b"VALUE", value)).status == 200
    assert [received.values(b"x-odd")[0] for received in raw.requests] == values

"""A hostile run, logged in full: no key of either side is in any answer or line of the log."""

import gzip

import pytest
from gateway_stack import StartGateway
from raw_calls import CHAT, FILES, MESSAGES, chat, fields, provision
from raw_client import RawClient, request
from raw_upstream import Peer, RawUpstream
from servers import RedisServer

from db.api_keys import Role, generate

KEY = b"sk-upstream-secret"
OK = b"HTTP/1.1 200 OK\r\n"
OOPS = b"HTTP/1.1 500 Oops\r\n"
STREAM = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"9\r\ndata: {}\n\r\n"
PACKED = gzip.compress(KEY * 9)
ECHOES = [
    KEY,
    KEY + b"\r\n\r\n",
    b"HTTP/1.1 " + KEY + b"\r\n\r\n",
    b"HTTP/1.1 200 " + KEY + b"\r\nContent-Length: 18\r\n\r\n" + KEY,
    b"HTTP/1.1 103 " + KEY + b"\r\nLink: " + KEY + b"\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: " + KEY + b"\r\nConnection: upgrade\r\n\r\n" + KEY,
    b"HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer " + KEY + b"\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://x/?k=" + KEY + b"\r\nContent-Length: 0\r\n\r\n",
    OK + KEY + b": " + KEY + b"\r\nContent-Length: 0\r\n\r\n",
    OK + KEY + b"\r\n\r\n",
    OK + b"Content-Length: " + KEY + b"\r\n\r\n",
    OK + b"Transfer-Encoding: " + KEY + b"\r\n\r\n",
    OK + b"Content-Encoding: " + KEY + b"\r\nContent-Length: 18\r\n\r\n" + KEY,
    OK + b"Content-Type: " + KEY + b"\r\nContent-Length: 18\r\n\r\n" + KEY,
    OK + b"Connection: " + KEY + b"\r\nSet-Cookie: a=" + KEY + b"\r\nContent-Length: 0\r\n\r\n",
    OK + b"Content-Length: 99\r\n\r\n" + KEY,
    OK + b"X: " + KEY * 9000 + b"\r\n\r\n",
    OOPS + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED,
    OOPS + b"Content-Encoding: gzip\r\nContent-Length: 18\r\n\r\n" + KEY,
    STREAM + EVENT + KEY + b"\r\n",
    STREAM + EVENT + b"1;" + KEY + b"\r\nx\r\n0\r\n\r\n",
    STREAM + EVENT + b"0\r\n" + KEY + b": " + KEY + b"\r\n\r\n",
    STREAM + b"20\r\ndata: " + KEY + b"\n\n: " + KEY[:4] + b"\r\n" + EVENT + b"0\r\n\r\n",
    STREAM + EVENT + b"12\r\n" + KEY + b"\r\n",
]  # fmt: skip
"""What an upstream sends, each with the key in another place."""


def misplaced(key: str) -> list[bytes]:
    """Requests with an agent's key where none belongs, most of them without a valid one beside."""
    beside = [("Authorization", f"Bearer {key}")]
    return [
        request("POST", CHAT, beside, f'{{"api_key": "{key}"'.encode()),
        request("POST", CHAT, beside, f'"{key}"'.encode()),
        request("POST", MESSAGES, [("x-api-key", key), ("Content-Encoding", key)], b"{}"),
        *(
            request("GET", target, headers)
            for target in (f"/{key}/v1", f"{FILES}?k={key}", f"/raw/../{key}", f"http://{key}@x/")
            for headers in ([], beside)
        ),
        request("GET", FILES, [("Host", key), ("Authorization", f"Basic {key}")]),
        request("GET", FILES, [*beside, ("Expect", key)]),
        request("GET", FILES, [*beside, ("Content-Length", key)]),
        request("GET", FILES, [*beside, ("Transfer-Encoding", key)]),
        request("GET", FILES, [*beside, (f" {key}", key)]),
        request("GET", FILES, [*beside, ("X-Long", key * 900)]),
        request(key, FILES, beside),
        request("GET", FILES, beside).replace(b"HTTP/1.1", key.encode()),
        request("POST", FILES, [*beside, ("Transfer-Encoding", "chunked")])
        + key.encode()
        + b"\r\n",
        *(
            request(method, target, headers, b'{"query":"{ platform }"}')
            for method in ("GET", "POST")
            for target in ("/limits", "/readyz", "/graphql", "/dashboard/sign-in", "/v1/x")
            for headers in ([("x-api-key", key)], [*beside, ("Content-Type", "application/json")])
        ),
    ]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_key_is_told_to_anybody(
    start_gateway: StartGateway, redis_server: RedisServer, raw: RawUpstream, log_format: str
) -> None:
    """Whatever an upstream echoes, wherever a caller puts a key, however much is logged."""
    stack = start_gateway(
        redis_server, LOG_LEVEL="debug", LOG_FORMAT=log_format, UPSTREAM_IDLE_TIMEOUT_S="2",
        LIMITER_DEADLINE_MS="5000",
    )  # fmt: skip
    first, second = provision(stack, agents=2).agents
    told = b""

    def ask(data: bytes) -> None:
        nonlocal told
        with RawClient(stack.gateway.port) as client:
            client.send(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            told += client.read_to_the_end()

    for echo in ECHOES:

        def script(peer: Peer, echo: bytes = echo) -> None:
            peer.send(echo)
            peer.close()

        raw.script = script
        for target, is_stream in ((CHAT, True), (CHAT, False), (FILES, False), (MESSAGES, True)):
            headers = fields(first, {"X-Api-Key": second.key, "Accept-Encoding": "gzip"})
            ask(request("POST", target, headers, chat(stream=is_stream)))
    assert len(raw.requests) > 3 * len(ECHOES)
    raw.script = Peer.json
    strangers = [generate(role) for role in Role]
    for key in (first.key, *strangers):
        for data in misplaced(key):
            ask(data)

    told += repr(stack.gateway.readyz()).encode() + stack.gateway.log.encode()
    secrets = [KEY.decode(), first.key, second.key, *strangers, stack.database_url]
    assert [secret for secret in secrets if secret.encode() in told] == []
    assert b"broke off" in told
    assert b"Traceback" not in told

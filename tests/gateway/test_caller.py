"""Whose request it is, and which keys go where."""

import base64
from urllib.parse import unquote_to_bytes

import pytest
from counters import Counters
from gateway_stack import Agent, Stack
from raw_calls import call, fields, provision
from raw_client import Answer, exchange, request
from raw_upstream import RawUpstream
from servers import eventually

from db.api_keys import Role, generate
from graphql_api.service import Service

PATH = "/raw/v1/files"
UPSTREAM_KEY = b"sk-upstream-secret"


def get(stack: Stack, headers: list[tuple[str, str]], path: str = PATH) -> Answer:
    return exchange(stack.gateway.port, request("GET", path, headers))


def ways(key: str) -> list[tuple[str, str]]:
    return [
        ("Authorization", f"Bearer {key}"),
        ("authorization", f"bearer  {key}"),
        ("X-Api-Key", key),
        ("api-key", key),
    ]


@pytest.mark.parametrize("way", range(4))
@pytest.mark.parametrize("path", [PATH, "/claude/v1/files"])
def test_a_key_is_taken_from_each_header_and_goes_no_further(
    stack: Stack, raw: RawUpstream, way: int, path: str
) -> None:
    """Every SDK's way to send a key is understood; the upstream gets its own key alone."""
    agent = provision(stack).agent
    assert get(stack, [ways(agent.key)[way]], path).status == 200
    (received,) = raw.requests
    assert agent.key.encode() not in received.head
    credentials = [
        (name, value)
        for name, value in received.headers
        if name in (b"authorization", b"x-api-key", b"api-key")
    ]
    expected = (
        (b"authorization", b"Bearer " + UPSTREAM_KEY)
        if path == PATH
        else (b"x-api-key", UPSTREAM_KEY)
    )
    assert credentials == [expected]


def test_a_key_repeated_elsewhere_reaches_no_upstream(stack: Stack, raw: RawUpstream) -> None:
    """Cookies and custom headers that repeat the key are left out, others are passed on."""
    agent = provision(stack).agent
    repeated = [
        ("Cookie", f"session={agent.key}; theme=dark"),
        ("X-Forwarded-Key", agent.key),
        ("X-Copy", f"key={agent.key}&x=1"),
        ("X-Escaped", f"key={agent.key.replace('_', '%5F')}"),
        ("Proxy-Authorization", f"Bearer {agent.key}"),
    ]
    kept = [("Cookie", "theme=dark"), ("X-Percent", "100%, %zz %41")]
    assert get(stack, [*ways(agent.key), *repeated, *kept]).status == 200
    (received,) = raw.requests
    assert agent.key.encode() not in unquote_to_bytes(received.head)
    assert received.values(b"cookie") == [b"theme=dark"]
    assert received.values(b"x-percent") == [b"100%, %zz %41"]


def test_a_second_key_reaches_no_upstream(stack: Stack, raw: RawUpstream) -> None:
    """Of two agents' keys the first counts, and the other is a secret of ours all the same."""
    first, second = provision(stack, agents=2).agents
    for name in ("X-Api-Key", "Cookie", "X-Custom"):
        assert get(stack, [*fields(first), (name, f"a={second.key}")]).status == 200
        assert get(stack, [*fields(first), (name, second.key)]).status == 200
    for received in raw.requests:
        assert b"ibex_" not in received.head


def test_of_two_keys_the_first_counts(stack: Stack, raw: RawUpstream) -> None:
    """Authorization, then x-api-key, then api-key, in whatever order they are sent."""
    tenant = provision(stack, agents=2)
    first, second = tenant.agents
    headers = [("api-key", second.key), ("x-api-key", first.key)]
    assert get(stack, headers).status == 200
    assert get(stack, [("x-api-key", second.key), *fields(first)]).status == 200
    counters = Counters(stack, tenant)
    assert (counters.requests(first), counters.requests(second)) == (2, 0)
    assert len(raw.requests) == 2


def test_a_provider_key_beside_ours_is_ignored(stack: Stack, raw: RawUpstream) -> None:
    """A client that still has a provider's key configured is found by ours, and loses its own."""
    agent = provision(stack).agent
    names = ("Authorization", "x-api-key", "api-key")
    for ours in names:
        theirs = [(name, "Bearer sk-of-the-client") for name in names if name != ours]
        own = (ours, f"Bearer {agent.key}" if ours == "Authorization" else agent.key)
        for path in (PATH, "/claude/v1/files", "/free/v1/files"):
            assert get(stack, [*theirs, own], path).status == 200
    assert len(raw.requests) == 9
    assert not [received for received in raw.requests if b"sk-of-the-client" in received.head]


def bad_keys(key: str) -> list[list[tuple[str, str]]]:
    flipped = key[:20] + ("a" if key[20] != "a" else "b") + key[21:]
    basic = base64.b64encode(f"{key}:".encode()).decode()
    return [
        [],
        [("Authorization", "Bearer sk-something")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Bearer")],
        [("Authorization", key)],
        [("Authorization", f"Basic {basic}")],
        [("Authorization", f"Bearer {flipped}")],
        [("Authorization", f"Bearer {key[:-1]}")],
        [("Authorization", f"Bearer {key}x")],
        [("Authorization", f"Bearer {key.upper()}")],
        [("x-api-key", f"Bearer {key}")],
        [("Cookie", f"key={key}")],
    ]


@pytest.mark.parametrize("case", range(12))
def test_without_a_valid_key_nothing_is_forwarded(
    stack: Stack, raw: RawUpstream, case: int
) -> None:
    """401 with a challenge, in the dialect of the upstream, and the key is not repeated."""
    key = provision(stack).agent.key
    for path in (PATH, "/claude/v1/messages", "/limits", "/unkeyed/v1/x"):
        answer = get(stack, bad_keys(key)[case], path)
        assert answer.status == 401
        assert answer.get("www-authenticate") == 'Bearer realm="ibex"'
        assert key.encode() not in answer.body
    assert raw.requests == []


def test_a_well_formed_key_that_nobody_issued_is_refused(stack: Stack, raw: RawUpstream) -> None:
    """A right checksum is no right to pass: a key of another installation is unknown here."""
    unknown = Agent("nobody", generate(Role.AGENT))
    assert call(stack, unknown, PATH).status == 401
    assert raw.requests == []


def test_a_revoked_key_is_refused_within_a_second(stack: Stack, raw: RawUpstream) -> None:
    """The key worked, is revoked, and is unknown; the agent's other key still works."""
    tenant = provision(stack)

    async def issue(service: Service) -> tuple[str, str]:
        issued = (await service.issue_agent_key(tenant.agent.id)).value
        return issued.id, issued.key

    key_id, key = stack.tenants.run(issue)
    agent = Agent(tenant.agent.id, key)
    assert eventually(lambda: call(stack, agent, PATH).status == 200, 1)
    stack.tenants.run(lambda service: service.revoke_key(key_id))
    assert eventually(lambda: call(stack, agent, PATH).status == 401, 1)
    seen = len(raw.requests)
    assert call(stack, agent, PATH).status == 401
    assert len(raw.requests) == seen
    assert call(stack, tenant.agent, PATH).status == 200


def test_operators_keys_carry_no_traffic(stack: Stack, raw: RawUpstream) -> None:
    """403 in both dialects: an operator's key is no credential for a provider."""
    tenant = provision(stack)

    async def issue(service: Service) -> list[str]:
        keys = [
            (await service.issue_operator_key(tenant.id, role)).value.key
            for role in (Role.ADMIN, Role.READ_ONLY)
        ]
        return [*keys, (await service.issue_platform_key()).value.key]

    for key in stack.tenants.run(issue):
        for path in (PATH, "/claude/v1/messages"):
            answer = get(stack, [("Authorization", f"Bearer {key}")], path)
            assert answer.status == 403
            assert key.encode() not in answer.body
    assert raw.requests == []


def test_a_key_in_the_url_is_refused(stack: Stack, raw: RawUpstream) -> None:
    """URLs end up in logs, also in the upstream's: alone it is no key, beside one it is 400."""
    agent = provision(stack).agent
    escaped = agent.key.replace("_", "%5F")
    for path in (f"{PATH}?key={agent.key}", f"{PATH}/{agent.key}", f"{PATH}?key={escaped}"):
        assert get(stack, [], path).status == 401
        answer = get(stack, fields(agent), path)
        assert answer.status == 400
        assert agent.key.encode() not in answer.body
    assert raw.requests == []
    assert agent.key not in stack.gateway.log


def test_a_preflight_is_told_that_it_is_not_offered(stack: Stack, raw: RawUpstream) -> None:
    """OPTIONS without a key is 405 with the methods, and no header that would let a page in."""
    headers = [
        ("Origin", "https://evil.test"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ]
    for path in (PATH, "/claude/v1/messages"):
        answer = exchange(stack.gateway.port, request("OPTIONS", path, headers))
        assert answer.status == 405
        assert answer.get("allow") == "GET, HEAD, POST, PUT, PATCH, DELETE"
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-control")]
    assert raw.requests == []

"""Much at once: what is refused costs little, and an agent beside it is served as before."""

import asyncio
import gzip
import json
from collections.abc import Callable

import pytest
from gateway_stack import Stack, StartGateway, Tenant
from raw_calls import CHAT, FILES, chat, fields, provision
from raw_client import request
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, eventually
from siege import IDLE_CONNECTIONS, Siege, besieged, flood
from traffic import command

from db.api_keys import Role, generate

Tell = Callable[[str], None]
BOMB = gzip.compress(bytes(16_000_000)) * 12
"""192 MB of zeros, packed into less than 200 kB."""
REFUSED = {400, 401, 403, 404, 405, 413, 415, 422, 431}


def graphql(key: str, query: str) -> bytes:
    head = [
        ("Authorization", f"Bearer {key}"),
        ("Content-Type", "application/json"),
        ("Accept", "application/graphql-response+json"),
    ]
    return request("POST", "/graphql", head, json.dumps({"query": query}).encode())


def get(target: str, *headers: tuple[str, str]) -> bytes:
    return request("GET", target, headers)


NESTED = "{ viewer " * 4000 + "{ role }" + " }" * 4000
ALIASES = "{ " + " ".join(f"a{n}: viewer {{ role }}" for n in range(5000)) + " }"
MULTIPLIED = "query { ...f0 } " + " ".join(
    f"fragment f{n} on Query {{ ...f{n + 1} ...f{n + 1} }}" for n in range(60)
) + " fragment f60 on Query { a: viewer { role } }"  # fmt: skip
LOOKS_INSIDE = "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }"

STRANGERS: dict[str, Callable[[], bytes]] = {
    "long URLs": lambda: get("/raw/" + "a" * 15_000),
    "URLs beyond the bound": lambda: get("/raw/" + "a" * 60_000),
    "many fields": lambda: get(FILES, *((f"x-{n}", "a") for n in range(1000))),
    "fields beyond the bound": lambda: get(FILES, ("x-long", "a" * 200_000)),
    "a field again and again": lambda: get(FILES, *[("x-same", "a")] * 1000),
    "two lengths": lambda: get(FILES, ("Content-Length", "5"), ("Content-Length", "6")) + b"abcde",
    "a length and chunks": lambda: get(
        FILES, ("Content-Length", "4"), ("Transfer-Encoding", "chunked")
    ),
    "random keys": lambda: get(FILES, ("Authorization", f"Bearer {generate(Role.AGENT)}")),
    "random operators' keys": lambda: graphql(generate(Role.PLATFORM), "{ viewer { role } }"),
    "bodies without a key": lambda: request("POST", CHAT, (), bytes(2_000_000)),
    "large forms": lambda: request(
        "POST", "/dashboard/sign-in",
        [("Content-Type", "application/x-www-form-urlencoded")], b"key=" + b"a" * 2_000_000,
    ),
}  # fmt: skip
"""From somebody without a key."""

OPERATORS: dict[str, Callable[[str], bytes]] = {
    "GraphQL: depth": lambda key: graphql(key, NESTED),
    "GraphQL: aliases": lambda key: graphql(key, ALIASES),
    "GraphQL: fragments": lambda key: graphql(key, MULTIPLIED),
    "GraphQL: introspection": lambda key: graphql(key, LOOKS_INSIDE),
    "GraphQL: large bodies": lambda key: graphql(key, "#" * 2_000_000),
}
"""With an operator's key."""


@pytest.fixture
def tenant(stack: Stack, raw: RawUpstream) -> Tenant:
    """The well-behaved agent's."""
    assert raw.requests == []
    return provision(stack)


@pytest.mark.parametrize("attack", STRANGERS)
async def test_strangers_disturb_nobody(
    stack: Stack, tenant: Tenant, tell: Tell, attack: str
) -> None:
    """Each is refused, or its connection ended; no upstream hears of it."""
    async with besieged(stack, tenant, tell, attack) as siege:
        await flood(stack, siege, STRANGERS[attack])
    assert sum(siege.statuses.values()) > 0
    assert set(siege.statuses) <= REFUSED | {0}


@pytest.mark.parametrize("attack", OPERATORS)
async def test_queries_that_multiply_are_refused(
    stack: Stack, tenant: Tenant, tell: Tell, attack: str
) -> None:
    """Before they are executed, while agents are served."""
    outcome = await asyncio.to_thread(
        stack.tenants.run, lambda service: service.issue_operator_key(tenant.id, Role.READ_ONLY)
    )
    async with besieged(stack, tenant, tell, attack) as siege:
        await flood(stack, siege, lambda: OPERATORS[attack](outcome.value.key))
    assert sum(siege.statuses.values()) > 0
    assert set(siege.statuses) <= {400, 413}, siege.statuses


async def test_a_body_that_says_it_is_huge_is_not_read(
    stack: Stack, tenant: Tenant, tell: Tell
) -> None:
    """An agent that announces a terabyte is refused by the announcement."""
    head = [*fields(tenant.agent), ("Content-Length", str(10**12))]
    async with besieged(stack, tenant, tell, "announced terabytes") as siege:
        await flood(stack, siege, lambda: request("POST", CHAT, head))
    assert set(siege.statuses) == {413}


@pytest.mark.parametrize("side", ["request", "answer"])
async def test_a_packed_bomb_is_not_unpacked(
    start_gateway: StartGateway, redis_server: RedisServer, raw: RawUpstream, tell: Tell, side: str
) -> None:
    """192 MB of zeros in 200 kB: neither an agent nor an upstream makes the gateway hold them."""

    def script(peer: Peer) -> None:
        if b"?bomb" in peer.received.target and side == "answer":
            peer.answer(BOMB, b"Content-Type: application/json", b"Content-Encoding: gzip")
        else:
            peer.json()

    raw.script = script
    stack = await asyncio.to_thread(start_gateway, redis_server, LIMITER_DEADLINE_MS="10000")
    tenant = await asyncio.to_thread(provision, stack)
    packed = {"Content-Encoding": "gzip"} if side == "request" else {}
    body = BOMB if side == "request" else chat()
    data = request("POST", f"{CHAT}?bomb", fields(tenant.agent, packed), body)
    async with besieged(stack, tenant, tell, f"packed bombs in {side}s") as siege:
        await flood(stack, siege, lambda: data)
    assert set(siege.statuses) == ({415} if side == "request" else {200})


async def test_idle_connections_cost_little(stack: Stack, tenant: Tenant, tell: Tell) -> None:
    """Thousands of connections that say nothing: memory for each is bounded, nobody waits."""
    async with besieged(stack, tenant, tell, f"{IDLE_CONNECTIONS} idle connections"):
        port = stack.gateway.port
        writers = [
            (await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(IDLE_CONNECTIONS)
        ]
        for writer in writers:
            writer.transport.abort()


def test_unknown_keys_are_looked_up_nowhere(
    start_gateway: StartGateway, redis_server: RedisServer
) -> None:
    """However many are tried, Redis runs no script for them."""
    stack = start_gateway(redis_server, LIMITER_DEADLINE_MS="2000")
    provision(stack)

    def scripts_run() -> int:
        found = command(redis_server, "INFO", "commandstats")
        return sum(
            of["calls"] for name, of in found.items() if name in ("cmdstat_evalsha", "cmdstat_eval")
        )

    async def attack(siege: Siege) -> None:
        await flood(stack, siege, STRANGERS["random keys"])

    assert eventually(lambda: stack.gateway.readyz()["limiter"]["unsettled"] == 0)
    before, siege = scripts_run(), Siege()
    asyncio.run(attack(siege))
    assert set(siege.statuses) == {401}
    assert scripts_run() == before

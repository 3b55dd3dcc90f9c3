"""Measures the whole path of a request, next to a plain proxy and to no proxy at all."""

import asyncio
import http.client
import json
import sys
import time
from typing import Any

from chat import PATH, request
from load import LoadFigures, Plan
from stand import Effort, Server, Stand, typical

from db.migrate import migrate
from db.repository import Repository, connect
from gateway.embedded import free_port
from graphql_api.service import Service

CONNECTIONS = 32
ORGANIZATIONS = 4
NO_BOUND = str(10**12)
SETTLED_WITHIN_S = 5.0

CONSTANT, IBEX, HTTPX = ROWS = ("constant", "ibex", "httpx")


def measure(stand: Stand, effort: Effort) -> dict[str, LoadFigures]:
    """The typical figures of each row. All answers were 200, and all were decided."""
    keys = asyncio.run(_provision(stand.postgres.url))
    servers = _start(stand)
    found: dict[str, list[LoadFigures]] = {row: [] for row in ROWS}
    for _ in range(effort.rounds):
        for row, server in servers.items():
            path = f"/openai{PATH}" if row == IBEX else PATH
            plan = Plan(
                server.address.port,
                [request(path, key) for key in keys],
                effort.seconds,
                server.pid,
            )
            command = stand.script("load", stand.keep("plan.json", plan))
            found[row].append(stand.figures(command, LoadFigures))
    _require_decided(servers[IBEX])
    return {row: typical(rounds) for row, rounds in found.items()}


async def _provision(database_url: str) -> list[str]:
    """An agent's key for each connection."""
    await migrate(database_url)
    pool = await connect(database_url, min_size=1, max_size=1)
    try:
        service = Service(Repository(pool), _nobody_to_tell)
        organizations = [await service.create_organization(f"{n}") for n in range(ORGANIZATIONS)]
        keys = []
        for number in range(CONNECTIONS):
            org_id = organizations[number % ORGANIZATIONS].id
            agent = (await service.create_agent(org_id, f"{number}")).value
            keys.append((await service.issue_agent_key(agent.id)).value.key)
        return keys
    finally:
        await pool.close()


async def _nobody_to_tell(_org_id: str) -> bool:
    """The gateway is started afterwards."""
    return True


def _start(stand: Stand) -> dict[str, Server]:
    """One process each; the upstream is a fourth."""
    port = free_port()
    upstream = stand.serve("upstream", stand.script("constant_upstream", port), port).address.url
    servers = {}
    for row in (CONSTANT, HTTPX):
        port = free_port()
        servers[row] = stand.serve(row, stand.script("sanic_servers", row, port, upstream), port)
    port = free_port()
    command = [sys.executable, "-m", "gateway", "serve", "--host", "127.0.0.1", "--port", str(port)]
    env = {
        "DATABASE_URL": stand.postgres.url,
        "REDIS_URL": stand.valkey.url,
        "DEFAULT_AGENT_RPM": NO_BOUND,
        "DEFAULT_ORG_RPM": NO_BOUND,
        "GLOBAL_RPM": NO_BOUND,
        "DEFAULT_ORG_TOKENS_PER_MONTH": NO_BOUND,
        "LIMITER_DEADLINE_MS": "5000",  # a busy machine is not an outage
        "UPSTREAM_OPENAI_URL": upstream,
        "UPSTREAM_OPENAI_KEY": "sk-benchmark",
    }
    servers[IBEX] = stand.serve(IBEX, command, port, env)
    return servers


def _require_decided(gateway: Server) -> None:
    """Nothing was admitted without a decision, and everything is settled."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while (limiter := _limiter(gateway))["unsettled"]:
        assert time.monotonic() < deadline, limiter
        time.sleep(0.05)
    assert limiter["state"] == "deciding", limiter
    assert not any(limiter[n] for n in ("admitted_open", "broken", "settlements_lost")), limiter


def _limiter(gateway: Server) -> dict[str, Any]:
    connection = http.client.HTTPConnection(gateway.address.host, gateway.address.port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        found: dict[str, Any] = json.loads(connection.getresponse().read())["limiter"]
        return found
    finally:
        connection.close()

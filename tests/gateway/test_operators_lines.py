"""The line that each request of an operator leaves in the log, and what it never holds."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from gateway_stack import Stack, StartGateway, Tenant
from servers import RedisServer, eventually

from db.api_keys import Role

PATIENT_MS = "2000"
WHISPERED = "whispered-to-the-gateway"
BROWSER = {"Sec-Fetch-Site": "same-origin"}


@dataclass(frozen=True)
class Operated:
    """A gateway, an operator of one organization, and how much of the log is of earlier."""

    stack: Stack
    tenant: Tenant
    key_id: str
    key: str
    before: int

    @property
    def log(self) -> str:
        """What it has logged since."""
        return self.stack.gateway.log[self.before :]

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def lines(self, count: int) -> list[dict[str, Any]]:
        """The lines of operators' requests, of which there come to be just so many."""

        def found() -> list[dict[str, Any]]:
            logged = [json.loads(line) for line in self.log.splitlines()]
            return [line for line in logged if line["event"] == "operator request"]

        assert eventually(lambda: len(found()) >= count)
        assert len(found()) == count
        return found()


@pytest.fixture
def operated(stack: Stack) -> Operated:
    return operate(stack)


def operate(stack: Stack) -> Operated:
    """With a new organization and a key of its administrator."""
    tenant = stack.tenants.create()
    issued = stack.tenants.run(lambda s: s.issue_operator_key(tenant.id, Role.ADMIN, "op")).value
    return Operated(stack, tenant, issued.id, issued.key, len(stack.gateway.log))


@pytest.fixture
def client(operated: Operated) -> Iterator[httpx.Client]:
    with browser_of(operated.stack) as browser:
        yield browser


def browser_of(stack: Stack) -> httpx.Client:
    """What sends forms as one of our own pages does."""
    return httpx.Client(base_url=stack.url, headers=BROWSER, timeout=20)


def test_each_face_says_who_asked_for_what(operated: Operated, client: httpx.Client) -> None:
    """REST, GraphQL and the dashboard alike, with the id that the operator was told."""
    rest = client.get(
        f"/v1/organizations/{operated.tenant.id}/rate-limits", headers=operated.bearer
    )
    document = {"query": "query Mine { organizations { nodes { id } } }", "operationName": "Mine"}
    graphql = client.post("/graphql", json=document, headers=operated.bearer)
    client.post("/dashboard/sign-in", data={"key": operated.key})
    page = client.get(f"/dashboard/organizations/{operated.tenant.id}")
    assert [each.status_code for each in (rest, graphql, page)] == [200, 200, 200]

    by_rest, by_graphql, sign_in, by_page = operated.lines(4)

    for line, answer in ((by_rest, rest), (by_graphql, graphql), (by_page, page)):
        assert line["request_id"] == answer.headers["x-request-id"]
        assert (line["role"], line["key_id"]) == ("admin", operated.key_id)
        assert (line["status"], line["level"]) == (200, "info")
        assert line["duration_ms"] > 0
    assert (by_rest["method"], by_graphql["method"]) == ("GET", "POST")
    assert by_rest["route"] == "/v1/organizations/<organization_id:str>/rate-limits"
    assert (by_graphql["route"], by_graphql["operation"]) == ("/graphql", "Mine")
    assert by_page["route"] == "/dashboard/organizations/<organization_id:str>"
    assert (sign_in["route"], sign_in["status"]) == ("/dashboard/sign-in", 303)
    assert "operation" not in by_rest


def test_strangers_and_paths_that_lead_nowhere_are_told(
    operated: Operated, client: httpx.Client
) -> None:
    """With their status and as nobody; agents' requests and probes leave no such line."""
    assert client.get("/v1/agents").status_code in (401, 404)
    assert client.post("/graphql", json={"query": "{ viewer { role } }"}).status_code == 401
    assert client.get("/dashboard").status_code == 303
    assert client.get("/healthz").status_code == 200
    assert client.get("/raw/v1/models").status_code == 401

    lines = operated.lines(3)

    assert [line["status"] for line in lines][1:] == [401, 303]
    assert not any("role" in line or "key_id" in line for line in lines)


def test_nothing_that_was_sent_is_told(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """Wherever it is put: in the path, the query, a form, a document, its name or variables."""
    operated = operate(start_gateway(redis_server, LIMITER_DEADLINE_MS=PATIENT_MS))
    with browser_of(operated.stack) as client:
        client.post("/dashboard/sign-in", data={"key": operated.key, "next": f"/{WHISPERED}"})
        client.post("/dashboard/sign-in", data={"key": f"ibex_adm_{WHISPERED}"})
        (session,) = client.cookies.values()
        organization = f"/dashboard/organizations/{operated.tenant.id}"
        client.post(f"{organization}/limits", data={"rpm": WHISPERED, "reason": WHISPERED})
        client.get(f"{organization}?page={WHISPERED}")
        for hidden in (WHISPERED, session, operated.key):
            client.get(f"/v1/keys/{hidden}?after={hidden}", headers=operated.bearer)
            client.get(f"/dashboard/{hidden}?key={hidden}")
            document = {
                "query": f'query {{ organization(id: "{hidden}") {{ id }} }}',
                "operationName": hidden,
                "variables": {"id": hidden},
            }
            client.post("/graphql", json=document, headers=operated.bearer)
            client.get("/graphql", params={"query": hidden}, headers=operated.bearer)

    operated.lines(16)

    for secret in (WHISPERED, session, operated.key):
        assert secret not in operated.log


def test_lines_of_operators_can_be_left_out_too(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """By the setting that leaves out those of agents."""
    env = {"ACCESS_LOG": "false", "LIMITER_DEADLINE_MS": PATIENT_MS}
    operated = operate(start_gateway(redis_server, **env))
    answer = httpx.get(f"{operated.stack.url}/v1/organizations", headers=operated.bearer)
    assert answer.status_code == 200

    assert operated.lines(0) == []

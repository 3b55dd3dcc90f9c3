"""The line that each request to an upstream leaves in the log."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from gateway_stack import Stack, StartGateway
from raw_calls import provision
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, eventually
from traffic import USED, ask, chat

pytestmark = pytest.mark.usefixtures("raw")

PATIENT_MS = "2000"
SECRET = "sk-upstream-secret"


@dataclass(frozen=True)
class Logged:
    """A gateway, and how much of its log is of earlier."""

    stack: Stack
    before: int = 0

    @property
    def log(self) -> str:
        return self.stack.gateway.log[self.before :]

    def lines(self, count: int) -> list[dict[str, Any]]:
        """The lines of requests, of which there come to be just so many."""

        def found() -> list[dict[str, Any]]:
            logged = [json.loads(line) for line in self.log.splitlines()]
            return [line for line in logged if line["event"] == "request"]

        assert eventually(lambda: len(found()) >= count)
        assert len(found()) == count
        return found()


@pytest.fixture
def logged(stack: Stack) -> Logged:
    """The common gateway: of earlier requests nothing is under way."""
    return Logged(stack, len(stack.gateway.log))


def test_an_admitted_request_says_who_what_and_how_long(logged: Logged) -> None:
    """All that is known, with the id that the client was told."""
    tenant = provision(logged.stack)
    answer = chat(logged.stack, tenant.agent)

    (line,) = logged.lines(1)

    assert line["request_id"] == answer.headers["x-request-id"]
    assert (line["organization_id"], line["agent_id"]) == (tenant.id, tenant.agent.id)
    assert (line["upstream"], line["method"]) == ("raw", "POST")
    assert line["path"] == "/v1/chat/completions"
    assert (line["outcome"], line["status"], line["level"]) == ("admitted", 200, "info")
    assert line["tokens"] == USED
    assert "estimated" not in line
    assert line["bytes"] == len(answer.body)
    assert line["duration_ms"] >= line["upstream_ms"] > 0
    assert line["duration_ms"] >= line["first_byte_ms"] > 0
    assert line["limiter_ms"] > 0


def test_a_denial_and_a_stranger_are_told_with_what_is_known(logged: Logged) -> None:
    """A denial names its level, a request without a key nobody."""
    tenant = provision(logged.stack, org_rpm=0)
    denial = chat(logged.stack, tenant.agent)
    chat(logged.stack, None)

    denied, stranger = logged.lines(2)

    assert (denied["outcome"], denied["denied_by"], denied["status"]) == ("denied", "org", 429)
    assert denied["request_id"] == denial.headers["x-request-id"]
    assert (stranger["outcome"], stranger["status"]) == ("unauthenticated", 401)
    assert "organization_id" not in stranger
    assert "upstream_ms" not in denied


def test_the_upstreams_own_id_is_told(logged: Logged, raw: RawUpstream) -> None:
    """By it a provider's support finds the request, and it is what the client has."""
    tenant = provision(logged.stack)
    raw.script = lambda peer: peer.answer(b"{}", b"X-Request-Id: theirs-1")
    assert chat(logged.stack, tenant.agent).headers["x-request-id"] == "theirs-1"

    assert logged.lines(1)[0]["request_id"] == "theirs-1"


def test_neither_query_nor_key_nor_body_is_told(logged: Logged) -> None:
    """Keys in a path are covered, queries left out, and nothing of what was said is there."""
    tenant = provision(logged.stack)
    path = f"/raw/v1/{SECRET}/{tenant.agent.key}?api_key=hidden"
    assert logged.stack.gateway.get(path, tenant.agent.bearer)[0] == 400
    assert chat(logged.stack, tenant.agent, user="whispered").status == 200

    logged.lines(2)

    for secret in (SECRET, tenant.agent.key, "hidden", "whispered"):
        assert secret not in logged.log


def test_a_client_that_left_is_told(logged: Logged, raw: RawUpstream) -> None:
    """With the status that it saw."""
    tenant = provision(logged.stack)

    def endless(peer: Peer) -> None:
        peer.start_stream()
        peer.chunk(b'data: {"choices":[]}\n\n')
        peer.wait_until_left()

    raw.script = endless
    ask(logged.stack, tenant.agent, stream=True).close()

    (line,) = logged.lines(1)
    assert line["client_left"]
    assert line["outcome"] == "admitted"


@pytest.mark.parametrize("env", [{"ACCESS_LOG": "false"}, {"LOG_LEVEL": "warning"}])
def test_lines_can_be_left_out(
    redis_server: RedisServer, start_gateway: StartGateway, env: dict[str, str]
) -> None:
    """By their own setting, or as what is less than a warning."""
    stack = start_gateway(redis_server, LIMITER_DEADLINE_MS=PATIENT_MS, **env)
    tenant = provision(stack)
    assert chat(stack, tenant.agent).status == 200
    assert eventually(lambda: stack.gateway.readyz()["open_requests"] == 0)

    assert Logged(stack).lines(0) == []


def test_people_get_the_same_as_text(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """With LOG_FORMAT=console the line is written as every other."""
    stack = start_gateway(redis_server, LIMITER_DEADLINE_MS=PATIENT_MS, LOG_FORMAT="console")
    tenant = provision(stack)
    assert chat(stack, tenant.agent).status == 200

    assert eventually(lambda: f"agent_id={tenant.agent.id}" in stack.gateway.log)
    assert "outcome=admitted" in stack.gateway.log

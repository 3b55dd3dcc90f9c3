"""Faults that mock providers nobody here wrote can make, as the providers' own SDKs raise them."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anthropic
import httpx
import msgspec
import openai
import pytest
from counters import Counters
from gateway_stack import Agent, Stack, StartGateway
from missing import missing
from raw_calls import call, chat, provision
from sdks import CLAUDE, MESSAGES, MODEL, anthropic_at, openai_at
from servers import RedisServer, eventually

from gateway.cli.dev_processes import Address
from gateway.embedded import free_port

AIMOCK = "@copilotkit/aimock@1.43.0"


@pytest.fixture
def scripted(llmock_url: str) -> Iterator[Callable[..., None]]:
    """`scripted(type=..., ...)`: what llmock does to the next request."""
    at = f"{llmock_url}/_llmock/scenario"

    def script(**behavior: object) -> None:
        httpx.post(at, json={"behaviors": [behavior]}).raise_for_status()

    yield script
    httpx.delete(at).raise_for_status()


def openai_stream(stack: Stack, agent: Agent) -> int:
    """Reads one stream to its end; returns the number of its chunks."""
    with openai_at(stack, agent, max_retries=0) as client:
        return len(
            list(client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True))
        )


def anthropic_stream(stack: Stack, agent: Agent) -> int:
    """The same of the other family."""
    with anthropic_at(stack, agent, max_retries=0) as client:
        return len(
            list(
                client.messages.create(model=CLAUDE, max_tokens=99, messages=MESSAGES, stream=True)
            )
        )


STREAMS = [
    pytest.param(openai_stream, openai.APIError, id="openai"),
    pytest.param(anthropic_stream, anthropic.APIStatusError, id="anthropic"),
]
Stream = Callable[[Stack, Agent], int]


def settled_once(agent: Agent, counters: Counters) -> bool:
    assert eventually(lambda: counters.open() == 0)
    assert counters.held() == 0
    return counters.requests(agent) == 1


@pytest.mark.parametrize(("stream", "error"), STREAMS)
@pytest.mark.parametrize("kind", ["disconnect", "stall"])
def test_a_stream_that_breaks_is_an_error_of_the_sdk(
    stack: Stack, scripted: Callable[..., None], stream: Stream, error: type[Exception], kind: str
) -> None:
    """A dropped connection, and a silence beyond what an upstream is granted."""
    tenant = provision(stack)
    scripted(type="stream_fault", kind=kind, after_chunks=2, stall_seconds=3.5)
    with pytest.raises(error, match="in time" if kind == "stall" else "cannot be reached"):
        stream(stack, tenant.agent)
    counters = Counters(stack, tenant)
    assert settled_once(tenant.agent, counters)
    assert counters.tokens() > 0


@pytest.mark.parametrize(("stream", "_error"), STREAMS)
@pytest.mark.parametrize("kind", ["truncate", "malformed"])
def test_a_stream_that_the_provider_spoils_is_the_providers(
    stack: Stack, scripted: Callable[..., None], stream: Stream, _error: object, kind: str
) -> None:
    """An end too early and a chunk that is no JSON are relayed, and charged for what was seen."""
    tenant = provision(stack)
    scripted(type="stream_fault", kind=kind, after_chunks=2)
    with suppress(openai.OpenAIError, anthropic.AnthropicError, ValueError):
        assert stream(stack, tenant.agent) <= (4 if kind == "truncate" else 100)
    counters = Counters(stack, tenant)
    assert settled_once(tenant.agent, counters)
    assert counters.tokens() > 0


@pytest.mark.parametrize(("stream", "_error"), STREAMS)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_error_of_the_provider_is_raised_as_such(
    stack: Stack, scripted: Callable[..., None], stream: Stream, _error: object, status: int
) -> None:
    """With the provider's status and Retry-After; no token is charged."""
    tenant = provision(stack)
    scripted(type="fail", status=status, retry_after=7, message="their words")
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
        stream(stack, tenant.agent)
    error = caught.value
    assert (error.status_code, "their words" in str(error)) == (status, True)
    assert error.response.headers.get("retry-after") == "7"
    assert "ibex-denied-by" not in error.response.headers
    assert settled_once(tenant.agent, Counters(stack, tenant))
    assert Counters(stack, tenant).tokens() == 0


def test_an_answer_that_takes_too_long_is_a_timeout_of_ours(
    stack: Stack, scripted: Callable[..., None]
) -> None:
    """504, which the SDK raises as a server's error and would try again."""
    tenant = provision(stack)
    scripted(type="delay", seconds=3.5)
    with (
        openai_at(stack, tenant.agent, max_retries=0) as client,
        pytest.raises(openai.InternalServerError, match="did not answer in time") as caught,
    ):
        client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert caught.value.status_code == 504
    assert settled_once(tenant.agent, Counters(stack, tenant))


@pytest.fixture
def aimock(tmp_path: Path) -> Iterator[str]:
    """The address of an aimock, fetched by npm, whose answers cost 15 tokens."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        missing("Node is not here, which aimock runs on")
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", AIMOCK]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120).returncode:
        missing("npm cannot fetch aimock")
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    answer = {"match": {"userMessage": "hi"}, "response": {"content": "Hello.", "usage": usage}}
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_bytes(msgspec.json.encode({"fixtures": [answer]}))
    address = Address("127.0.0.1", free_port())
    program = tmp_path / "node_modules/@copilotkit/aimock/dist/cli.js"
    process = subprocess.Popen(
        ["node", program, "-p", str(address.port), "-f", fixtures],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert eventually(lambda: address.answers("/health"), 30)
        yield address.url
    finally:
        process.terminate()
        process.wait(10)


def test_another_mock_providers_faults_are_relayed_and_free(
    aimock: str, start_gateway: StartGateway, redis_server: RedisServer
) -> None:
    """aimock drops, spoils, disconnects and limits; in between it answers and is counted."""
    stack = start_gateway(
        redis_server, UPSTREAM_AIMOCK_URL=aimock, UPSTREAM_AIMOCK_KEY="sk-aimock-secret",
        LIMITER_DEADLINE_MS="5000",
    )  # fmt: skip
    tenant = provision(stack)
    target = "/aimock/v1/chat/completions"
    seen = {}
    for stream in (False, True):
        for fault in ("drop", "malformed", "disconnect", "ratelimit", "none"):
            headers = {f"X-AIMock-Chaos-{fault}": "1"}
            answer = call(stack, tenant.agent, target, chat(stream=stream), headers=headers)
            seen[fault, stream] = answer.status
            assert answer.ended
            assert answer.get("retry-after") == ("1" if fault == "ratelimit" else None)
            assert b"sk-aimock-secret" not in answer.body
    for stream in (False, True):
        assert [seen[fault, stream] for fault in ("drop", "disconnect", "ratelimit", "none")] == [
            500, 502, 429, 200,
        ]  # fmt: skip
    assert not settled_once(tenant.agent, Counters(stack, tenant))
    assert Counters(stack, tenant).requests(tenant.agent) == 10
    assert Counters(stack, tenant).tokens() >= 30
    limiter = stack.gateway.readyz()["limiter"]
    assert (limiter["admitted_open"], limiter["broken"]) == (0, 0)

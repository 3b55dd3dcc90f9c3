"""Organizations that the gateway knows already, and their agents' requests, byte for byte."""

import json
from collections.abc import Mapping
from typing import Any

from gateway_stack import Agent, Stack, Tenant
from raw_client import Answer, RawClient, exchange, request
from servers import eventually

CHAT = "/raw/v1/chat/completions"
FILES = "/raw/v1/files"
MESSAGES = "/claude/v1/messages"
PROMPT_TOKENS = 5
"""The estimate for the one message of `chat`: three for its frame, two for its two words."""


def provision(stack: Stack, **limits: Any) -> Tenant:
    """An organization as `Tenants.create` makes it, once the gateway obeys its limits."""
    tenant = stack.tenants.create(**limits)
    wanted = {
        "agent": limits.get("agent_rpm"),
        "org": limits.get("org_rpm"),
        "tokens": limits.get("tokens"),
    }
    assert eventually(lambda: all(obeys(stack, agent, wanted) for agent in tenant.agents))
    return tenant


def obeys(stack: Stack, agent: Agent, limits: Mapping[str, int | None]) -> bool:
    """Whether the gateway knows the agent, and just these limits for it."""
    status, body = stack.gateway.get("/limits", agent.bearer)
    return status == 200 and all(body[level]["limit"] == limits[level] for level in limits)


def call(
    stack: Stack,
    agent: Agent,
    target: str = CHAT,
    body: bytes | None = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request with the agent's key: a GET without a body, a POST of JSON with one."""
    method = method or ("GET" if body is None else "POST")
    return exchange(stack.gateway.port, request(method, target, fields(agent, headers), body))


def start(stack: Stack, agent: Agent, target: str = CHAT, **members: Any) -> RawClient:
    """A connection on which a request for a stream was sent."""
    client = RawClient(stack.gateway.port)
    client.send(request("POST", target, fields(agent), chat(stream=True, **members)))
    return client


def fields(agent: Agent, headers: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """The agent's key and a JSON body's type, with these headers beside or instead."""
    return list({**agent.bearer, "Content-Type": "application/json", **(headers or {})}.items())


def chat(**members: Any) -> bytes:
    """The body of a chat or messages request; a member of None is sent as null."""
    return json.dumps({"messages": [{"role": "user", "content": "hi"}], **members}).encode()

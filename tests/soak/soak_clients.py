"""Agents and operators at work, and what each call has come to."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx
from gateway_stack import Agent, Tenant
from soak_upstream import WORDS

ROUTES = (
    "/openai/v1/chat/completions",
    "/openai/v1/responses",
    "/anthropic/v1/messages",
    "/openai/v1/embeddings",
)
BIG_BYTES = 400_000
FORM = "application/x-www-form-urlencoded"


@dataclass
class Call:
    """One request of an agent. Times are of the monotonic clock; `status` 0: no answer."""

    id: str
    org_id: str
    agent_id: str
    sent_bytes: int
    began: float
    head_at: float = 0.0
    ended_at: float = 0.0
    status: int = 0
    is_open: bool = False
    is_whole: bool = False
    has_left: bool = False
    error: str = ""


@dataclass(frozen=True)
class Habits:
    """How an agent behaves: parts of 1."""

    leaves: float = 0.0
    slow: float = 0.0
    streams: float = 0.5
    big: float = 0.02
    pause_s: float = 0.2


@dataclass
class Crowd:
    """Everybody who calls. `calls` is what became of the agents' requests."""

    url: str
    random: Random
    calls: list[Call] = field(default_factory=list)
    under_way: dict[str, Call] = field(default_factory=dict)
    operated: dict[str, int] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _is_over: bool = False

    def add(self, tenant: Tenant, agent: Agent, habits: Habits, count: int = 1) -> None:
        """Let so many clients of this agent begin."""
        for _ in range(count):
            random = Random(self.random.random())
            self._tasks.append(asyncio.create_task(self._agent(tenant, agent, habits, random)))

    def operate(self, org_ids: list[str], limited: Tenant, key: str) -> None:
        """Let an operator begin: read everything, and change limits of one organization."""
        random = Random(self.random.random())
        self._tasks.append(asyncio.create_task(self._operator(org_ids, limited, key, random)))

    async def leave(self) -> None:
        """Let everybody finish what is under way. Whoever broke with an error raises it here."""
        self._is_over = True
        await asyncio.gather(*self._tasks)
        self._tasks.clear()
        self._is_over = False

    async def _agent(self, tenant: Tenant, agent: Agent, habits: Habits, random: Random) -> None:
        async with _client(self.url) as client:
            while not self._is_over:
                body, route = _request(random, habits)
                call = Call(
                    f"{random.getrandbits(64):016x}", tenant.id, agent.id, len(body),
                    time.monotonic(),
                )  # fmt: skip
                self.under_way[call.id] = call
                headers = {
                    "Content-Type": "application/json", "x-soak-id": call.id, **agent.bearer,
                }  # fmt: skip
                patience = random.uniform(0, 0.3) if random.random() < habits.leaves else 60.0
                try:
                    async with asyncio.timeout(patience):
                        await _ask(client, route, body, headers, call)
                except TimeoutError:
                    call.has_left = True
                except httpx.HTTPError as error:
                    call.error = repr(error)
                call.ended_at = time.monotonic()
                self.calls.append(self.under_way.pop(call.id))
                await asyncio.sleep(random.uniform(0, 2 * habits.pause_s))

    async def _operator(
        self, org_ids: list[str], limited: Tenant, key: str, random: Random
    ) -> None:
        bearer = {"Authorization": f"Bearer {key}"}
        limits = f"/v1/organizations/{limited.id}/agents/{limited.agents[1].id}/rate-limits"
        async with _client(self.url) as client:
            while not self._is_over:
                org_id = random.choice(org_ids)
                query = json.dumps({"query": "{ organizations(first: 5) { nodes { id name } } }"})
                asked: list[tuple[str, str, Any, dict[str, str]]] = [
                    ("GET", f"/v1/organizations/{org_id}/rate-limits", None, bearer),
                    ("POST", "/graphql", query, {**bearer, "Content-Type": "application/json"}),
                    ("GET", "/dashboard", None, {"Accept": "text/html"}),
                    ("GET", f"/dashboard/organizations/{org_id}", None, {"Accept": "text/html"}),
                    (
                        "PATCH",
                        limits,
                        json.dumps({"requests_per_minute": random.choice([0, 5, 50, 5000])}),
                        {**bearer, "Content-Type": "application/merge-patch+json"},
                    ),
                ]
                if "ibex_session" not in client.cookies:
                    form = {"Sec-Fetch-Site": "same-origin", "Content-Type": FORM}
                    asked.append(("POST", "/dashboard/sign-in", f"key={key}", form))
                for method, path, content, headers in asked:
                    await self._look(client, method, path, content, headers)
                    await asyncio.sleep(random.uniform(0, 0.5))

    async def _look(
        self, client: httpx.AsyncClient, method: str, path: str, content: Any,
        headers: dict[str, str],
    ) -> None:  # fmt: skip
        try:
            answer = await client.request(method, path, content=content, headers=headers)
            outcome = f"{answer.status_code // 100}xx"
            if answer.status_code not in {200, 302, 303, 503}:
                self.surprises.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        except httpx.HTTPError as error:
            outcome = repr(error)
            self.surprises.append(f"{method} {path}: {outcome}")
        self.operated[outcome] = self.operated.get(outcome, 0) + 1


def _client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False)


def _request(random: Random, habits: Habits) -> tuple[bytes, str]:
    """A body and where it goes."""
    route = random.choice(ROUTES)
    text = " ".join(random.choices(WORDS, k=random.randint(3, 60)))
    if random.random() < habits.big:
        text *= BIG_BYTES // len(text)
    if route.endswith("embeddings"):
        return json.dumps({"model": "m", "input": text}).encode(), route
    body: dict[str, Any] = {"model": "m", "max_tokens": random.randint(100, 1000)}
    if random.random() < habits.slow:
        body["user"] = "slow"
    if random.random() < habits.streams:
        body["stream"] = True
        if random.random() < 0.5:  # the gateway asks for it where the client does not
            body["stream_options"] = {"include_usage": True}
    if route.endswith("responses"):
        return json.dumps({**body, "input": text}).encode(), route
    return json.dumps({**body, "messages": [{"role": "user", "content": text}]}).encode(), route


async def _ask(
    client: httpx.AsyncClient, route: str, body: bytes, headers: dict[str, str], call: Call
) -> None:
    is_slow = b'"user": "slow"' in body
    async with client.stream("POST", route, content=body, headers=headers) as answer:
        call.head_at = time.monotonic()
        call.status = answer.status_code
        call.is_open = answer.headers.get("ibex-limiter") == "open"
        async for piece in answer.aiter_raw():
            if is_slow:
                await asyncio.sleep(len(piece) / 200_000)
            if b'"error"' in piece:
                call.error = piece[:300].decode("latin-1")
        call.is_whole = True

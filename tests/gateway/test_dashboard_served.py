"""The dashboard as it is served: beside the traffic, by every worker, and not to agents alone."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from gateway_stack import Stack, StartGateway, Tenant
from raw_calls import provision
from raw_client import exchange, request
from servers import RedisServer, StartRedis, eventually
from traffic import chat

from db.api_keys import Role
from gateway.breaker import FAILURES_TO_OPEN

CERTAINLY_BOTH = 12
"""So many connections in a row reach each of two workers."""
BROWSER = {"Sec-Fetch-Site": "same-origin"}


def operators_key(stack: Stack, tenant: Tenant, role: Role = Role.ADMIN) -> str:
    return stack.tenants.run(lambda s: s.issue_operator_key(tenant.id, role, "op")).value.key


@contextmanager
def signed_in(stack: Stack, key: str) -> Iterator[httpx.Client]:
    """A browser that has signed in."""
    with httpx.Client(base_url=stack.url, headers=BROWSER, timeout=20) as browser:
        answer = browser.post("/dashboard/sign-in", data={"key": key})
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
        yield browser


@pytest.fixture
def two_workers(redis_server: RedisServer, start_gateway: StartGateway) -> Iterator[Stack]:
    """A gateway of two workers."""
    stack = start_gateway(redis_server, "--workers", "2")
    assert eventually(lambda: stack.gateway.log.count("gateway ready") == 2)
    yield stack
    assert "internal error" not in stack.gateway.log


def test_every_worker_knows_who_has_signed_in_and_out(two_workers: Stack) -> None:
    """Over as many connections as reach both; and no log tells a key or a session."""
    tenant = provision(two_workers)
    key = operators_key(two_workers, tenant)
    page = f"{two_workers.url}/dashboard/organizations/{tenant.id}"
    with signed_in(two_workers, key) as browser:
        (session,) = browser.cookies.values()
        cookies = {"Cookie": f"ibex_session={session}"}

        def statuses() -> set[int]:
            return {httpx.get(page, headers=cookies).status_code for _ in range(CERTAINLY_BOTH)}

        assert statuses() == {200}
        browser.post("/dashboard/sign-out")
        assert statuses() == {303}

    assert key not in two_workers.gateway.log
    assert session not in two_workers.gateway.log


def test_a_revoked_key_is_signed_out_everywhere(stack: Stack) -> None:
    """With the next request of its session."""
    tenant = provision(stack)
    key = operators_key(stack, tenant)
    with signed_in(stack, key) as browser:
        page = f"/dashboard/organizations/{tenant.id}"
        assert browser.get(page).status_code == 200
        by_key = {"Authorization": f"Bearer {key}"}
        keys = browser.get(f"/v1/organizations/{tenant.id}/keys", headers=by_key).json()["keys"]
        (own,) = [each["id"] for each in keys if each["role"] == "admin"]

        assert browser.delete(f"/v1/keys/{own}", headers=by_key).status_code in (200, 204)

        answer = browser.get(page)
        assert (answer.status_code, answer.headers["location"]) == (
            303,
            f"/dashboard/sign-in?next={page}",
        )


def test_a_session_is_no_key_for_the_api(stack: Stack) -> None:
    """Cookies travel by themselves; what takes them is guarded against other sites."""
    tenant = provision(stack)
    with signed_in(stack, operators_key(stack, tenant)) as browser:
        assert browser.get(f"/v1/organizations/{tenant.id}/rate-limits").status_code == 401
        assert browser.post("/graphql", json={"query": "{ viewer { role } }"}).status_code == 401


@pytest.mark.parametrize(
    "target",
    [
        "/dashboard/nothing",
        "/dashboard/x/../y",
        "/dashboard/%2e%2e/v1",
        "/dashboard/é",
    ],
)
def test_what_is_not_there_is_a_page_and_no_traffic(stack: Stack, target: str) -> None:
    """Whatever begins with /dashboard is for browsers, by every method; it names no upstream."""
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        body = None if method == "GET" else b""
        answer = exchange(stack.gateway.port, request(method, target, BROWSER.items(), body))

        assert answer.status in (400, 404, 405)
        assert (answer.get("content-type") or "").startswith("text/html")
        assert answer.get("x-content-type-options") == "nosniff"
        assert (answer.get("x-request-id") or "").startswith("req_")


@pytest.mark.parametrize("target", ["/dashboardx/v1", "/Dashboard/x", "/v1/dashboard"])
def test_what_only_looks_like_it_is_none_of_its_pages(stack: Stack, target: str) -> None:
    """Neighbours answer as they do."""
    answer = httpx.get(stack.url + target)

    assert answer.status_code in (401, 404)
    assert answer.headers["content-type"].partition(";")[0].endswith("json")


def test_a_form_that_is_too_long_is_not_taken_in(stack: Stack) -> None:
    """By far less than what an agent may send."""
    answer = httpx.post(
        stack.url + "/dashboard/sign-in", data={"key": "x" * 1_000_000}, headers=BROWSER
    )

    assert answer.status_code == 413
    assert answer.headers["content-type"].startswith("text/html")


def test_redis_gone_signs_nobody_out(start_redis: StartRedis, start_gateway: StartGateway) -> None:
    """Pages go on, also when the gateway has given up asking; nobody new gets in meanwhile."""
    doomed = start_redis()
    stack = start_gateway(doomed)
    tenant = provision(stack)
    key = operators_key(stack, tenant)
    with signed_in(stack, key) as browser:
        page = f"/dashboard/organizations/{tenant.id}"
        assert browser.get(page).status_code == 200

        doomed.kill()

        assert browser.get(page).status_code == 200
        for _ in range(FAILURES_TO_OPEN):
            assert chat(stack, tenant.agent).is_open
        assert stack.gateway.readyz()["limiter"]["state"] == "open"
        assert browser.get(page).status_code == 200
        answer = httpx.post(stack.url + "/dashboard/sign-in", data={"key": key}, headers=BROWSER)
        assert answer.status_code == 503
        assert "Sessions are kept in Redis" in answer.text

        doomed.start()
        assert eventually(lambda: stack.gateway.readyz()["limiter"]["state"] == "deciding")
        with signed_in(stack, key) as another:
            assert another.get(page).status_code == 200
    assert "internal error" not in stack.gateway.log


def test_it_is_served_with_the_management_and_not_with_the_traffic_alone(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """`--only management` has it, `--only gateway` does not."""
    with_it = start_gateway(redis_server, "--only", "management")
    without = start_gateway(redis_server, "--only", "gateway")

    assert httpx.get(with_it.url + "/dashboard/sign-in").status_code == 200
    for path in ("/dashboard", "/dashboard/sign-in", "/dashboard/static/x/dashboard.css"):
        answer = httpx.get(without.url + path)
        assert answer.status_code == 404
        assert json.loads(answer.text)["error"]["code"] == "unknown_upstream"

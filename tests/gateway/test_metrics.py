"""What Prometheus is told: by the name that is documented, of all workers, never going back."""

import os
import signal
import time
import urllib.request

import pytest
from counters import Counters
from gateway_stack import Stack, StartGateway
from processes import descendants
from raw_calls import provision
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, StartRedis, eventually, fetch, run_apart
from traffic import USED, chat, limiter_state

from gateway.metrics import CONTENT_TYPE, Told, exposition
from gateway.numbers import BOUNDS_S, FAMILIES, LIMITER, Numbers

pytestmark = pytest.mark.usefixtures("raw")

PATIENT_MS = "2000"
VERSION = "SELECT sum(version)::int FROM ibex_core.organizations"
OLD_ENOUGH_S = 5.2
"""A worker that dies sooner ends everything."""


def scrape(stack: Stack) -> dict[str, float]:
    """Every sample that GET /metrics tells, by its full name."""
    with urllib.request.urlopen(f"{stack.url}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        lines = answer.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def requests(samples: dict[str, float], outcome: str, status: str, upstream: str = "raw") -> float:
    """How many requests ended so."""
    labels = f'upstream="{upstream}",outcome="{outcome}",status="{status}"'
    return samples.get(f"ibex_requests_total{{{labels}}}", 0)


def test_what_became_of_requests_is_counted(stack: Stack, raw: RawUpstream) -> None:
    """Each outcome once, with its status; tokens as reported; durations of those that had them."""
    tenant = provision(stack, agent_rpm=3)
    before = scrape(stack)
    assert chat(stack, tenant.agent).status == 200
    assert chat(stack, tenant.agent, "dead").status == 502
    raw.script = lambda peer: peer.json(b"{}", status=b"503 Busy")
    assert chat(stack, tenant.agent).status == 503
    raw.script = Peer.json
    assert chat(stack, tenant.agent).status == 429
    assert chat(stack, None).status == 401
    assert chat(stack, tenant.agent, "unkeyed").status == 503
    assert Counters(stack, tenant).settled(USED)

    now = scrape(stack)
    told = {name: value - before.get(name, 0) for name, value in now.items()}

    assert requests(told, "admitted", "2xx") == 1
    assert requests(told, "admitted", "5xx", "dead") == 1
    assert requests(told, "admitted", "5xx") == 1
    assert requests(told, "denied", "4xx") == 1
    assert requests(told, "unauthenticated", "4xx") == 1
    assert requests(told, "unconfigured", "5xx", "unkeyed") == 1
    assert told['ibex_denied_total{level="agent"}'] == 1
    assert told['ibex_upstream_failures_total{upstream="dead"}'] == 1
    assert told['ibex_tokens_total{upstream="raw",source="reported"}'] == USED
    assert told["ibex_limiter_seconds_count"] == 4
    assert told['ibex_request_seconds_count{upstream="raw"}'] == 4
    assert told['ibex_first_byte_seconds_count{upstream="raw"}'] == 2
    assert told['ibex_upstream_seconds_count{upstream="raw"}'] == 2
    assert told['ibex_upstream_seconds_count{upstream="dead"}'] == 1
    assert now["ibex_admitted_open_total"] == now["ibex_limiter_open"] == 0
    assert now["ibex_workers"] == now["ibex_changes_heard"] == 1


def test_no_name_and_no_secret_is_told(stack: Stack) -> None:
    """Neither organization nor agent nor key is a label, so there are few series."""
    tenant = provision(stack)
    assert chat(stack, tenant.agent).status == 200

    told = "\n".join(scrape(stack))

    for secret in (tenant.id, tenant.agent.id, tenant.agent.key, "sk-upstream-secret"):
        assert secret not in told


def test_an_outage_is_told(start_redis: StartRedis, start_gateway: StartGateway) -> None:
    """While Redis is away: the open limiter, who was admitted open, and what waits."""
    redis_server = start_redis()
    stack = start_gateway(redis_server)
    tenant = provision(stack)
    redis_server.stop()
    assert eventually(lambda: chat(stack, tenant.agent).is_open and limiter_state(stack) == "open")
    before = scrape(stack)
    assert chat(stack, tenant.agent).is_open

    told = scrape(stack)

    assert told["ibex_limiter_open"] == 1
    assert told["ibex_admitted_open_total"] == before["ibex_admitted_open_total"] + 1
    assert told["ibex_spool_size"] == before["ibex_spool_size"] + 1
    assert requests(told, "open", "2xx") == requests(before, "open", "2xx") + 1


def test_workers_are_told_as_one_and_no_counter_goes_back(
    redis_server: RedisServer, start_gateway: StartGateway
) -> None:
    """Whoever is asked tells of both, also when one of them was killed and replaced."""
    stack = start_gateway(redis_server, "--workers", "2", LIMITER_DEADLINE_MS=PATIENT_MS)
    assert eventually(lambda: scrape(stack)["ibex_workers"] == 2)
    started = time.monotonic()
    tenant = provision(stack)
    version = run_apart(lambda: fetch(stack.database_url, VERSION))
    assert eventually(lambda: scrape(stack)["ibex_snapshot_version"] == version)  # both know it
    for _ in range(20):
        assert chat(stack, tenant.agent).status == 200
    assert eventually(lambda: requests(scrape(stack), "admitted", "2xx") == 20)
    assert eventually(lambda: time.monotonic() - started > OLD_ENOUGH_S)

    os.kill(descendants(stack.gateway.pid)[0], signal.SIGKILL)

    assert eventually(lambda: stack.gateway.log.count("gateway ready") == 3)
    assert eventually(lambda: scrape(stack)["ibex_workers"] == 2)
    assert requests(scrape(stack), "admitted", "2xx") == 20


def test_every_sample_belongs_to_a_family_that_is_explained(stack: Stack) -> None:
    """Each family has one HELP and one TYPE line, and every sample follows its own."""
    tenant = provision(stack)
    assert chat(stack, tenant.agent).status == 200
    with urllib.request.urlopen(f"{stack.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()

    family, kind, seen = "", "", []
    for line in lines:
        if line.startswith("# HELP"):
            family = line.split()[2]
            seen.append(family)
        elif line.startswith("# TYPE"):
            assert line.split()[2] == family
            kind = line.split()[3]
        else:
            name = line.partition("{")[0].partition(" ")[0]
            allowed = {family}
            if kind == "histogram":
                allowed = {f"{family}_bucket", f"{family}_sum", f"{family}_count"}
            assert name in allowed
    assert seen == list(FAMILIES)


def test_a_histogram_reaches_what_it_has_counted() -> None:
    """A bucket holds all that is at most its bound; the last holds everything."""
    numbers = Numbers()
    for seconds in (0.001, 0.0011, 700.0):
        numbers.observe((LIMITER,), seconds)

    told = numbers.samples()

    assert told['ibex_limiter_seconds_bucket{le="0.0005"}'] == 0
    assert told['ibex_limiter_seconds_bucket{le="0.001"}'] == 1
    assert told['ibex_limiter_seconds_bucket{le="0.002"}'] == 2
    assert told[f'ibex_limiter_seconds_bucket{{le="{BOUNDS_S[-1]}"}}'] == 2
    assert told['ibex_limiter_seconds_bucket{le="+Inf"}'] == told["ibex_limiter_seconds_count"] == 3
    assert told["ibex_limiter_seconds_sum"] == pytest.approx(700.0021)


def test_gauges_become_one_as_their_kind_says() -> None:
    """What is so of any worker is told as the most, what must be so of all as the least."""
    one = Told({"ibex_admitted_open_total": 2}, {"ibex_limiter_open": 0, "ibex_changes_heard": 1})
    other = Told({"ibex_admitted_open_total": 3}, {"ibex_limiter_open": 1, "ibex_changes_heard": 0})

    lines = exposition([one, other]).splitlines()

    assert "ibex_admitted_open_total 5" in lines
    assert "ibex_limiter_open 1" in lines
    assert "ibex_changes_heard 0" in lines

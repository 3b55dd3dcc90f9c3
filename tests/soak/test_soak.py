"""A short soak, and what its judges say of books that do not agree."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from soak_clients import Call
from soak_gauges import Memory
from soak_truth import passed_limit, truth
from soak_upstream import Spent

TESTS = Path(__file__).parents[1]
SECONDS = 45
SEED = 7


def test_a_short_soak_adds_up() -> None:
    """Truth, Redis and Postgres agree after every fault; nothing is held, leaked or failed."""
    run = subprocess.run(
        [sys.executable, "tests/soak/soak_run.py", f"--minutes={SECONDS / 60}", f"--seed={SEED}"],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Violations: 0." in run.stdout


def asked(**how: Any) -> Call:
    """A request that was answered whole."""
    return Call(
        **{
            "id": "x", "org_id": "o", "agent_id": "a", "sent_bytes": 300, "began": 1.0,
            "head_at": 1.0, "ended_at": 2.0, "status": 200, "is_whole": True, **how,
        }
    )  # fmt: skip


def whole(stated: int = 100, **how: Any) -> dict[str, Spent]:
    """What the upstream knows of it."""
    complete = {"has_begun": True, "may_have_stated": True, "is_whole": True, "sent": 600}
    return {"x": Spent(stated, **{**complete, **how})}


def test_what_came_whole_costs_what_was_stated() -> None:
    """One token more or less is not held to be true."""
    found = truth([asked()], whole())
    assert [found.tokens["o"].hold(tokens) for tokens in (99, 100, 101)] == [False, True, False]
    assert [found.reported["o"].hold(tokens) for tokens in (99, 100)] == [False, True]


@pytest.mark.parametrize("status", [429, 502])
def test_what_was_not_answered_is_free(status: int) -> None:
    """Denied, or failed before there was an answer."""
    spent = {} if status == 429 else whole(has_begun=False, is_whole=False)
    assert truth([asked(status=status)], spent).tokens["o"].most == 0


@pytest.mark.parametrize("how", [{"has_left": True}, {"error": "cut"}])
def test_what_was_cut_has_bounds(how: dict[str, object]) -> None:
    """Up to what was stated and what the text stands for; reported is what may have been stated."""
    found = truth([asked(is_whole=False, **how)], whole(is_whole=False))
    assert found.tokens["o"].least == 0
    assert 100 < found.tokens["o"].most < 600
    assert found.reported["o"].most == 100
    early = truth([asked(is_whole=False, **how)], whole(is_whole=False, may_have_stated=False))
    assert early.reported["o"].most == 0


@pytest.mark.parametrize(
    ("how", "bounds"),
    [({}, (1, 1)), ({"status": 429}, (0, 0)), ({"is_open": True}, (0, 1)), ({"status": 0}, (0, 1))],
)
def test_requests_have_bounds_too(how: dict[str, object], bounds: tuple[int, int]) -> None:
    """One that was decided counts once, one that was denied never; of others nobody knows."""
    requests = truth([asked(**how)], whole()).requests["o"]
    assert (requests.least, requests.most) == bounds


def test_a_request_that_is_sent_twice_is_told() -> None:
    """The upstream has seen its name before."""
    assert "2 times" in truth([asked()], whole(times=2)).violations[0]


def test_a_cut_answer_that_looks_whole_is_told() -> None:
    """Its client could not know."""
    assert "looked whole" in truth([asked()], whole(is_whole=False)).violations[0]


def test_a_passed_limit_is_told() -> None:
    """Three within 60 s are more than two; two are not, nor is what was denied or open."""
    three = [asked(began=float(at), head_at=float(at)) for at in (0, 30, 59)]
    assert "passed its limit of 2" in passed_limit(three, "a", 2)
    assert passed_limit(three, "a", 3) == ""
    assert passed_limit([*three[:2], asked(began=61.0, head_at=61.0)], "a", 2) == ""
    assert passed_limit([*three[:2], asked(status=429), asked(is_open=True)], "a", 2) == ""


def test_growth_is_measured_once_it_is_warm() -> None:
    """From the second fifth of the samples to the last."""
    assert Memory({1: [10.0, 10, 50, 50, 60, 60, 70, 70, 80, 80]}).growth() == [(50.0, 80.0)]

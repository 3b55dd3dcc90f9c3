"""What `ibex doctor` says of servers that are as they should be, and of those that are not."""

import json
import os
import subprocess
import sys
from typing import Any

from raw_upstream import RawUpstream
from servers import RedisServer, run_apart
from traffic import command

from db.migrate import migrate
from gateway.embedded import free_port

SECRET = "sk-upstream-secret"


def doctor(**env: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report, and everything that was printed."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    run = subprocess.run(
        [sys.executable, "-m", "gateway", "doctor", "--json"],
        env={**keep, "PORT": str(free_port()), **env},
        capture_output=True,
        text=True,
    )
    return run.returncode, json.loads(run.stdout), run.stdout + run.stderr


def states(report: dict[str, Any], name: str) -> dict[str, str]:
    """What was found of one thing."""
    found = [finding for finding in report["findings"] if finding["name"] == name]
    return {finding["text"]: finding["state"] for finding in found}


def test_all_is_well(database_url: str, redis_server: RedisServer, raw: RawUpstream) -> None:
    """Nothing fails, and no secret is told."""
    run_apart(lambda: migrate(database_url))
    code, report, printed = doctor(
        DATABASE_URL=database_url,
        REDIS_URL=redis_server.url,
        UPSTREAM_RAW_URL=raw.url,
        UPSTREAM_RAW_KEY=SECRET,
    )

    assert (code, report["healthy"]) == (0, True)
    assert states(report, "DATABASE_URL")["migrations are current"] == "ok"
    assert states(report, "REDIS_URL")["the primary"] == "ok"
    assert "ok" in states(report, "UPSTREAM_RAW").values()
    assert "warn" in states(report, "UPSTREAM_OPENAI").values()
    assert report["settings"]["UPSTREAM_RAW_KEY"] == "(set)"
    for url in (database_url, redis_server.url):
        assert url.partition("://")[2].rpartition("@")[0].rpartition(":")[2] not in printed
    assert SECRET not in printed


def test_what_is_wrong_is_named_with_its_mend(
    database_url: str, redis_server: RedisServer, raw: RawUpstream
) -> None:
    """A schema that is behind and a dead upstream fail, a policy that evicts is a warning."""
    command(redis_server, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    code, report, _ = doctor(
        DATABASE_URL=database_url,
        REDIS_URL=redis_server.url,
        UPSTREAM_DEAD_URL=f"http://127.0.0.1:{free_port()}",
        UPSTREAM_DEAD_KEY=SECRET,
        PORT=raw.url.rpartition(":")[2],
    )

    assert (code, report["healthy"]) == (1, False)
    wrong = {(one["name"], one["state"]) for one in report["findings"] if one["state"] != "ok"}
    assert wrong >= {
        ("DATABASE_URL", "fail"),
        ("REDIS_URL", "warn"),
        ("UPSTREAM_DEAD", "fail"),
        ("PORT", "warn"),
    }
    assert all(one["mend"] for one in report["findings"] if one["state"] != "ok")


def test_servers_that_do_not_answer_or_are_not_named_are_findings() -> None:
    """No traceback: what cannot be reached fails."""
    code, report, printed = doctor(REDIS_URL=f"redis://:hidden@127.0.0.1:{free_port()}")

    assert code == 1
    assert states(report, "DATABASE_URL") == {"is not set": "fail"}
    assert list(states(report, "REDIS_URL").values()) == ["fail"]
    assert "hidden" not in printed

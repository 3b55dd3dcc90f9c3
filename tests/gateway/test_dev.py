"""`ibex dev`: what it starts, prints, keeps and refuses."""

import socket
import stat
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from dev_process import StartDev
from processes import (
    NOBODY,
    alive,
    as_root,
    command_lines,
    descendants,
    home_of_nobody,
    python_of_nobody,
)
from servers import eventually

from lua import keys

FIELDS = [
    "base_url",
    "redis_url",
    "database_url",
    "organization_id",
    "agents",
    "admin_key",
    "read_only_key",
    "platform_key",
    "upstreams",
]


def test_everything_runs_and_the_keys_work(start_dev: StartDev) -> None:
    """One command later, an agent's key is accepted, and dev.json holds what it takes."""
    dev = start_dev().ready()
    info = dev.info

    assert list(info) == FIELDS
    assert [sorted(agent) for agent in info["agents"]] == [["id", "key", "name"]] * 2
    assert info["upstreams"] == {
        "anthropic": "https://api.anthropic.com",
        "openai": "https://api.openai.com",
    }
    assert dev.status("/readyz") == 200
    assert [dev.status("/limits", agent["key"]) for agent in info["agents"]] == [200, 200]
    assert dev.status("/limits") == 401


def test_what_is_needed_is_printed(start_dev: StartDev) -> None:
    """Address, keys, a line to paste, and that a provider's key is missing."""
    dev = start_dev(env={"UPSTREAM_ANTHROPIC_KEY": "secret-of-a-provider"}).ready()
    info = dev.info
    output = dev.output

    for shown in (*(agent["key"] for agent in info["agents"]), info["admin_key"]):
        assert shown in output
    assert f"curl {info['base_url']}/openai/v1/chat/completions" in output
    assert f"{info['base_url']}/dashboard" in output
    assert "UPSTREAM_OPENAI_KEY" in output
    assert "UPSTREAM_ANTHROPIC_KEY" not in output
    assert "secret-of-a-provider" not in output


def test_secrets_are_private(start_dev: StartDev) -> None:
    """No command line shows a key or a password, and only the owner can read the file."""
    dev = start_dev("--demo").ready()
    info = dev.info
    passwords = [urlsplit(info[name]).password for name in ("redis_url", "database_url")]
    issued = [info["admin_key"], info["platform_key"], *(a["key"] for a in info["agents"])]
    lines = command_lines()

    assert "gateway.demo" in lines
    assert not any(secret in lines for secret in [*passwords, *issued])
    assert stat.S_IMODE((dev.data / "dev.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(dev.data.stat().st_mode) == 0o700


def test_keys_and_data_are_kept_between_runs(start_dev: StartDev) -> None:
    """A stop and a start later, the same keys work and the counters are there."""
    dev = start_dev().ready()
    kept = {name: dev.info[name] for name in FIELDS if not name.endswith(("url", "upstreams"))}
    with redis.Redis.from_url(dev.info["redis_url"]) as client:
        client.hset(keys.month_tokens(kept["organization_id"]), "2020-01", 5)
    dev.process.terminate()
    dev.ended()

    again = start_dev().ready()

    assert {name: again.info[name] for name in kept} == kept
    assert again.status("/limits", kept["agents"][0]["key"]) == 200
    with redis.Redis.from_url(again.info["redis_url"]) as client:
        assert client.hget(keys.month_tokens(kept["organization_id"]), "2020-01") == b"5"


def test_a_second_one_on_the_same_data_is_refused(start_dev: StartDev) -> None:
    """It says who runs there and where, and disturbs nothing."""
    dev = start_dev().ready()

    second = start_dev()

    assert second.ended() == 1
    assert f"pid {dev.process.pid}, {dev.info['base_url']}" in second.output
    assert dev.status("/readyz") == 200


def test_lost_keys_are_replaced(start_dev: StartDev) -> None:
    """Without dev.json the database stays, and new keys are issued."""
    dev = start_dev().ready()
    organization = dev.info["organization_id"]
    dev.process.terminate()
    dev.ended()
    (dev.data / "dev.json").write_text("{")

    again = start_dev().ready()

    assert again.info["organization_id"] == organization
    assert again.status("/limits", again.info["agents"][1]["key"]) == 200


@pytest.mark.parametrize("option", ["--port", "--redis-port", "--postgres-port"])
def test_a_taken_port_is_named_with_its_option(start_dev: StartDev, option: str) -> None:
    """The message says which port, and how to choose another; nothing is left running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        dev = start_dev(f"{option}={port}")

        assert dev.ended() == 1

    assert f"port {port} " in dev.output
    assert dev.output.strip().endswith(f"choose another with {option}")


def test_given_ports_are_used(start_dev: StartDev) -> None:
    """For somebody who has written them down elsewhere."""
    ports = []
    for _ in range(3):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    options = ("--port", "--redis-port", "--postgres-port")

    dev = start_dev(*(f"{name}={port}" for name, port in zip(options, ports, strict=True))).ready()

    urls = [dev.info[name] for name in ("base_url", "redis_url", "database_url")]
    assert [urlsplit(url).port for url in urls] == ports


def test_a_bad_setting_stops_it_before_anything_starts(start_dev: StartDev) -> None:
    """The variable is named, and no server was made for nothing."""
    dev = start_dev(env={"GLOBAL_RPM": "many"})

    assert dev.ended() == 2
    assert "GLOBAL_RPM" in dev.output
    assert not (dev.data / "postgres" / "data").exists()


def test_a_folder_that_cannot_be_used_is_an_error_of_one_line(
    start_dev: StartDev, tmp_path: Path
) -> None:
    """A file in the folder's place is named, without a traceback."""
    (tmp_path / "file").write_text("")

    dev = start_dev(data=tmp_path / "file")

    assert dev.ended() == 1
    assert dev.output.startswith("error: ")
    assert str(tmp_path / "file") in dev.output
    assert len(dev.output.splitlines()) == 1


def test_demo_agents_use_the_mock_through_the_gateway(start_dev: StartDev) -> None:
    """Within a minute there are requests, tokens and denials, and no provider was asked."""
    dev = start_dev(
        "--demo", env={"UPSTREAM_OPENAI_URL": "https://api.example", "UPSTREAM_OPENAI_KEY": "k"}
    ).ready()
    info = dev.info

    assert "ignored: UPSTREAM_OPENAI_KEY, UPSTREAM_OPENAI_URL" in dev.output
    assert {urlsplit(url).hostname for url in info["upstreams"].values()} == {"127.0.0.1"}
    with redis.Redis.from_url(info["redis_url"], decode_responses=True) as client:
        month = time.strftime("%Y-%m", time.gmtime())
        used = keys.month_tokens(info["organization_id"])
        rings = [keys.agent_ring(info["organization_id"], a["id"]) for a in info["agents"]]
        assert eventually(lambda: int(client.hget(used, month) or 0) > 0, 20)
        assert eventually(lambda: client.exists(*rings) == 2, 20)
        assert eventually(lambda: any(client.hexists(r, "denied:agent") for r in rings), 60)


@as_root
def test_an_ordinary_user_can_run_it(start_dev: StartDev) -> None:
    """Nothing of it needs root."""
    with home_of_nobody() as home:
        python, env = python_of_nobody(home)
        dev = start_dev("--demo", data=home / "data", python=python, env=env, **NOBODY).ready()
        everything = descendants(dev.process.pid)
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in everything}

        dev.process.terminate()

        assert owners == {65534}
        assert dev.ended() == 0
        assert [pid for pid in everything if alive(pid)] == []

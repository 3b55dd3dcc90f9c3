"""`ibex dev`: however it ends, nothing of it is left, and it can be started again."""

import http.client
import os
import signal
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from dev_process import StartDev
from processes import (
    alive,
    descendants,
)
from servers import eventually


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_everything(start_dev: StartDev, number: signal.Signals) -> None:
    """SIGTERM, Ctrl-C and a closed terminal leave no process, and are no failure."""
    dev = start_dev("--demo").ready()
    everything = descendants(dev.process.pid)
    assert len(everything) > 4

    dev.process.send_signal(number)

    assert dev.ended() == 0
    assert [pid for pid in everything if alive(pid)] == []


def test_impatience_does_not_stop_the_stopping(start_dev: StartDev) -> None:
    """Ctrl-C again and again leaves no process either."""
    dev = start_dev().ready()
    everything = descendants(dev.process.pid)

    while dev.process.poll() is None:
        dev.process.send_signal(signal.SIGINT)
        dev.process.send_signal(signal.SIGTERM)
        time.sleep(0.005)

    assert dev.ended() == 0
    assert [pid for pid in everything if alive(pid)] == []


@pytest.mark.parametrize("delay", [0.0, 0.5, 1.2])
def test_a_signal_while_starting_ends_everything(start_dev: StartDev, delay: float) -> None:
    """Whatever was started by then ends, and the next start works."""
    dev = start_dev()
    assert eventually((dev.data / "dev.lock").exists)
    time.sleep(delay)
    everything = descendants(dev.process.pid)

    dev.process.terminate()

    assert dev.ended() == 0
    assert [pid for pid in everything if alive(pid)] == []
    assert start_dev().ready().status("/readyz") == 200


def test_a_killed_one_leaves_nothing_and_starts_again(start_dev: StartDev) -> None:
    """SIGKILL: the processes follow by themselves, locks and pid files stand in nobody's way."""
    dev = start_dev("--demo").ready()
    everything = descendants(dev.process.pid)
    port = urlsplit(dev.info["base_url"]).port
    key = dev.info["agents"][0]["key"]

    dev.process.kill()
    again = start_dev(f"--port={port}").ready()

    assert again.status("/limits", key) == 200
    assert eventually(lambda: not any(alive(pid) for pid in everything))


@pytest.mark.parametrize("name", ["valkey/valkey", "postgres/postgres", "gateway"])
def test_a_process_that_dies_ends_the_others(start_dev: StartDev, name: str) -> None:
    """Half of Ibex is not served: it says which part failed, and stops with an error."""
    dev = start_dev().ready()
    everything = descendants(dev.process.pid)

    os.kill(int((dev.data / f"{name}.pid").read_text()), signal.SIGKILL)

    assert dev.ended() == 1
    assert f"error: {Path(name).name} ended by itself" in dev.output
    assert [pid for pid in everything if alive(pid)] == []


def test_a_request_that_never_ends_does_not_hold_back_the_end(start_dev: StartDev) -> None:
    """Open requests get their time, then everything ends all the same, with success."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstream = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = {"UPSTREAM_OPENAI_URL": upstream, "UPSTREAM_OPENAI_KEY": "k"}
        dev = start_dev(env={**settings, "SHUTDOWN_GRACE_S": "1"}).ready()
        connection = http.client.HTTPConnection(urlsplit(dev.info["base_url"]).netloc)
        key = dev.info["agents"][0]["key"]
        connection.request("GET", "/openai/v1/models", headers={"Authorization": f"Bearer {key}"})
        accepted = silent.accept()[0]
        everything = descendants(dev.process.pid)
        before = time.monotonic()

        dev.process.terminate()

        assert dev.ended() == 0
        assert time.monotonic() - before > 0.9
        assert [pid for pid in everything if alive(pid)] == []
        connection.close()
        accepted.close()

"""Processes that must not outlive their starter."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import alive, as_root
from servers import eventually

from gateway.children import Account, Child, ChildError, try_lock

SLEEP = ["/bin/sleep", "600"]


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    """A child that is ended after the test."""
    child = Child("sleeper", tmp_path)
    yield child
    child.kill()


def log_of(child: Child) -> str:
    """What the child has written so far."""
    return (child.home / "sleeper.log").read_text()


@pytest.mark.parametrize("account", ["None", pytest.param("Account(65534, 65534)", marks=as_root)])
def test_a_child_dies_when_its_starter_is_killed(tmp_path: Path, account: str) -> None:
    """SIGKILL gives a starter no chance to clean up, and still nothing is left."""
    program = (
        "import pathlib, sys, time; from gateway.children import Account, Child\n"
        "child = Child('sleeper', pathlib.Path(sys.argv[1]))\n"
        f"child.start(sys.argv[2:], env={{}}, account={account})\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path), *SLEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        # Its own program by now, not the launcher any more.
        assert eventually(lambda: "sleep" in Path(f"/proc/{pid}/comm").read_text())

        starter.kill()

    assert eventually(lambda: not alive(pid))


def test_a_start_ends_what_an_earlier_starter_left(tmp_path: Path, child: Child) -> None:
    """Where a starter's death is not told, the lock on the pid file finds the process."""
    with (tmp_path / "sleeper.pid").open("w") as file:
        assert try_lock(file.fileno())
        with subprocess.Popen(SLEEP, pass_fds=[file.fileno()]) as orphan:
            file.write(str(orphan.pid))
            file.close()

            child.start(SLEEP, env={})

            assert orphan.wait(5) == -signal.SIGTERM
    assert child.running


def test_a_pid_file_without_a_lock_harms_nobody(tmp_path: Path, child: Child) -> None:
    """The number in an old pid file may be another program's by now: it is not touched."""
    with subprocess.Popen(SLEEP) as stranger:
        (tmp_path / "sleeper.pid").write_text(str(stranger.pid))

        child.start(SLEEP, env={})

        assert stranger.poll() is None
        stranger.kill()


def test_prepare_runs_when_nothing_else_is_at_work(child: Child) -> None:
    """A second start first ends the first process, then prepares."""
    child.start(SLEEP, env={})
    seen = []
    again = Child("sleeper", child.home)

    again.start(SLEEP, env={}, prepare=lambda: seen.append(child.running))

    assert seen == [False]
    again.kill()


def test_a_child_that_does_not_obey_is_killed_with_all_that_it_started(child: Child) -> None:
    """Stopping takes no longer than it was given, and leaves no grandchild."""
    script = "trap '' TERM; sleep 600 & echo $!; while :; do sleep 600; done"
    child.start(["/bin/sh", "-c", script], env={})
    assert eventually(lambda: log_of(child).endswith("\n"))
    grandchild = int(log_of(child))

    child.stop(seconds=0.2)

    assert not child.running
    assert eventually(lambda: not alive(grandchild))


def test_a_child_that_ends_while_starting_is_an_error_with_the_end_of_its_log(child: Child) -> None:
    """The last lines say why; the first ones of a long log do not drown them."""
    child.start(["/bin/sh", "-c", "seq 100; echo out of luck; exit 3"], env={})

    with pytest.raises(ChildError, match="sleeper did not start") as caught:
        child.wait_until(lambda: False, seconds=10)

    assert str(caught.value).endswith("out of luck")
    assert "50" not in str(caught.value)


def test_a_child_that_is_not_ready_in_time_is_stopped(child: Child) -> None:
    """An error leaves no process behind."""
    child.start(SLEEP, env={})

    with pytest.raises(ChildError, match=r"not ready after 0\.1 s"):
        child.wait_until(lambda: False, seconds=0.1)

    assert not child.running


def test_ctrl_c_in_the_terminal_does_not_reach_a_child(child: Child) -> None:
    """The starter decides in which order its children end."""
    child.start(SLEEP, env={})

    assert os.getsid(child.pid) == child.pid


@as_root
def test_an_account_gives_up_every_right_of_root(child: Child) -> None:
    """User, group and supplementary groups are the account's."""
    child.start(
        ["/bin/sh", "-c", "id -u; id -g; id -G; exec sleep 600"],
        env={"PATH": os.defpath},
        account=Account(65534, 65534),
    )

    assert eventually(lambda: log_of(child) == "65534\n65534\n65534\n")


def test_files_of_a_child_are_private(tmp_path: Path, child: Child) -> None:
    """Logs may quote what is nobody else's business."""
    child.start(SLEEP, env={})

    assert {path.stat().st_mode & 0o777 for path in Path(tmp_path).iterdir()} == {0o600}

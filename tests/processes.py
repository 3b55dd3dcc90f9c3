"""What tests ask about processes, and what they need to start some as somebody else."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

NOBODY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": ()}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")


def alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and is not reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    children = [child for child, parent in parents.items() if parent == pid]
    return children + [below for child in children for below in descendants(child)]


def command_lines() -> str:
    """What everybody on this machine can read of every process."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(lines)


def python_of_nobody(home: Path) -> tuple[str, dict[str, str]]:
    """A Python with our packages that the account `nobody` may run, and its environment.

    Ours, or the system's of the same version where ours is in a home that nobody can reach. That
    one may be older than 3.11.3, for which redis-py wants a backport of `asyncio.timeout`.
    """
    (home / "async_timeout.py").write_text("from asyncio import timeout\n")
    path = [str(Path(__file__).parents[1]), *filter(None, sys.path), str(home)]
    env = {
        "HOME": "/nonexistent",
        "PATH": os.defpath,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(path),
    }
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in filter(None, (sys.executable, shutil.which(version, path=os.defpath))):
        with suppress(PermissionError):
            probe = [python, "-c", "import gateway.cli"]
            if subprocess.run(probe, env=env, capture_output=True, **NOBODY).returncode == 0:
                return python, env
    pytest.skip("no Python with our packages that the account nobody can run")


@contextmanager
def home_of_nobody() -> Iterator[Path]:
    """A folder that belongs to `nobody`, in a place which that account can reach."""
    with tempfile.TemporaryDirectory(prefix="ibex-test-") as name:
        os.chown(name, NOBODY["user"], NOBODY["group"])
        yield Path(name)

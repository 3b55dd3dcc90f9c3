"""What the repository says of itself holds."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
from gateway_process import answers
from servers import RedisServer, eventually

from gateway.embedded import free_port
from gateway.settings import Settings

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


def test_readme_names_every_setting() -> None:
    """With the default that it has."""
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]*?) ?\|", readme, re.MULTILINE))
    for field in msgspec.structs.fields(Settings):
        if field.name == "upstreams":
            continue
        default = _as_written(field.default)
        assert rows.pop(field.encode_name) == default, field.encode_name
    assert rows == {}


def _as_written(default: object) -> str:
    if default is None:
        return "no limit"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_app_json_sets_what_there_is() -> None:
    """Every variable is a setting of Ibex, with a value that it takes."""
    env = {
        name: entry.get("value", "key")
        for name, entry in json.loads((ROOT / "app.json").read_text("utf-8"))["env"].items()
    }
    known = {field.encode_name for field in msgspec.structs.fields(Settings)}

    Settings.from_env(env)

    assert {name for name in env if not name.startswith("UPSTREAM_")} <= known


def test_the_procfile_runs_as_it_is(
    tmp_path: Path, redis_server: RedisServer, database_url: str
) -> None:
    """A process manager brings an empty database up to date, serves, and ends all in order."""
    port = free_port()
    env = {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url,
        "PORT": str(port),
    }
    with (tmp_path / "honcho.log").open("wb") as log:
        manager = subprocess.Popen(
            [BIN / "honcho", "start"], cwd=ROOT, env=env, stdout=log, stderr=log
        )
    try:
        assert eventually(lambda: answers(port, "/readyz"), 30)
    finally:
        manager.send_signal(signal.SIGTERM)
        manager.wait(30)
    assert not answers(port, "/readyz")
    log = (tmp_path / "honcho.log").read_text("utf-8")
    assert "Traceback" not in log
    assert "rc=1" not in log


def test_a_wheel_carries_everything_that_is_needed(tmp_path: Path) -> None:
    """What is read at run time is part of the package."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", tmp_path, ROOT],
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    packages = [ROOT / name for name in ("dashboard", "db", "gateway", "graphql_api", "lua")]
    kinds = ("*.py", "*.lua", "*.sql", "templates/*.html", "static/*", "schema.graphql")
    shipped = [path for package in packages for kind in kinds for path in package.rglob(kind)]
    assert {path.suffix for path in shipped} == {
        ".py", ".lua", ".sql", ".html", ".css", ".js", ".graphql"
    }  # fmt: skip
    assert {str(path.relative_to(ROOT)) for path in shipped} <= names

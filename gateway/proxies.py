"""Proxies that the environment names. Ibex reaches upstreams directly: it says so at the start.

To go past a proxy in silence would end in timeouts that nobody understands.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_fault(env: Mapping[str, str], url: str) -> str:
    """What is wrong if the environment wants this URL to be reached through a proxy; else "".

    Names the variable, never its value, which may hold a password. Read as by other programs:
    `NO_PROXY` lists hosts with all that is below them, `*` is every host; loopback needs no entry.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_loopback(host) or _is_excepted(env, host, parts.port):
        return ""
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if env.get(variable):
                return (
                    f"{variable}: upstreams are reached directly, not through a proxy; "
                    f"add {host} to NO_PROXY if that is possible, else remove the upstream's key"
                )
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_excepted(env: Mapping[str, str], host: str, port: int | None) -> bool:
    listed = env.get("no_proxy") or env.get("NO_PROXY") or ""
    for entry in listed.split(","):
        name = entry.strip().lower().removeprefix("*").removeprefix(".")
        if entry.strip() == "*":
            return True
        if name and (f".{host}".endswith(f".{name}") or name == f"{host}:{port}"):
            return True
    return False

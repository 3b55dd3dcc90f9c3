"""Looks at everything that a gateway depends on, and says what is wrong and how to mend it."""

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from db.errors import DatabaseError
from db.facts import server_facts as postgres_facts
from db.migrate import pending
from gateway.runtime import DATABASE_POOL
from gateway.settings import Settings, Upstream
from lua.connection import ClusterRefusedError, RedisAddress, connect
from lua.errors import LimiterError
from lua.facts import server_facts as redis_facts

PATIENCE_S = 5.0
OLDEST_POSTGRES = 14
OLDEST_REDIS = (6, 2)
LARGEST_SKEW_S = 1.0
FEW_FILES = 4096

State = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `mend` says what to do where it is not ok."""

    name: str
    state: State
    text: str
    mend: str = ""


async def examine(settings: Settings) -> list[Finding]:
    """Look at everything; what cannot be reached is a finding, not an error."""
    found = [finding async for finding in _postgres(settings)]
    found += [finding async for finding in _redis(settings)]
    found += await asyncio.gather(*(_upstream(one) for one in settings.upstreams.values()))
    return [*found, _files(), _port(settings.port)]


def variables(settings: Settings, env: Mapping[str, str]) -> dict[str, str]:
    """Every variable with its value in force; of secrets only whether they are set."""
    shown = {}
    for field in msgspec.structs.fields(Settings):
        if field.name != "upstreams":
            value = getattr(settings, field.name)
            shown[field.encode_name] = "" if value is None else str(value)
    for name in ("DATABASE_URL", "REDIS_URL"):
        shown[name] = _address(shown[name])
    for upstream in settings.upstreams.values():
        prefix = f"UPSTREAM_{upstream.name.upper()}"
        key = "(not set)" if upstream.key is None else "(set)" if upstream.key else "(none needed)"
        shown |= {
            f"{prefix}_URL": upstream.url,
            f"{prefix}_KEY": key,
            f"{prefix}_DIALECT": upstream.dialect,
            f"{prefix}_STREAM_USAGE": str(upstream.stream_usage),
        }
    return {name: value + ("" if name in env else "  (default)") for name, value in shown.items()}


def _address(url: str) -> str:
    """Where it is, without who and by which password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://***@{rest.rpartition('@')[2].partition('?')[0]}" if url else "(not set)"


async def _postgres(settings: Settings) -> AsyncIterator[Finding]:
    name = "DATABASE_URL"
    if not settings.database_url:
        yield Finding(name, "fail", "is not set", "set it to postgres://user:password@host/name")
        return
    try:
        async with asyncio.timeout(PATIENCE_S):
            facts = await postgres_facts(settings.database_url)
            waiting = await pending(settings.database_url)
    except (DatabaseError, TimeoutError) as error:
        text = str(error) or f"no answer within {PATIENCE_S:g} s"
        yield Finding(name, "fail", text, "see that Postgres runs and lets this machine in")
        return
    needed = settings.web_concurrency * DATABASE_POOL
    yield _judged(
        name, f"Postgres {facts.version}", facts.version >= OLDEST_POSTGRES, "use 14 or newer"
    )
    yield _judged(
        name,
        "writable" if facts.is_writable else "read-only",
        facts.is_writable,
        "name the primary, not a replica",
    )
    migrated = f"{len(waiting)} migrations pending" if waiting else "migrations are current"
    yield _judged(name, migrated, not waiting, "run `ibex migrate`")
    yield _judged(
        name,
        f"{needed} connections needed here, {facts.connections} allowed in all",
        needed * 2 <= facts.connections,
        "raise max_connections, or lower WEB_CONCURRENCY",
        otherwise="warn",
    )


async def _redis(settings: Settings) -> AsyncIterator[Finding]:
    name = "REDIS_URL"
    if not settings.redis_url:
        yield Finding(name, "fail", "is not set", "set it to redis://:password@host:6379/0")
        return
    address = RedisAddress(
        settings.redis_url, settings.redis_ca_file, tls_verify=settings.redis_tls_verify
    )
    client = None
    try:
        client = connect(address, timeout_s=PATIENCE_S)
        facts = await redis_facts(client)
    except (LimiterError, ClusterRefusedError, ValueError) as error:
        text = "it cannot be read" if isinstance(error, ValueError) else str(error)
        yield Finding(name, "fail", text, "see that it is one reachable primary, and its password")
        return
    finally:
        if client is not None:
            await client.aclose()
    version = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    yield _judged(name, f"speaks as Redis {facts.version}", version >= OLDEST_REDIS, "use 6.2")
    yield _judged(
        name,
        "the primary" if facts.is_primary else "a replica",
        facts.is_primary,
        "name the primary",
    )
    yield _judged(
        name,
        f"maxmemory-policy {facts.policy}",
        facts.policy == "noeviction",
        "set maxmemory-policy to noeviction: otherwise counters may vanish",
        otherwise="warn",
    )
    yield _judged(
        name,
        "data are kept" if facts.keeps_data else "data are lost with a restart",
        facts.keeps_data,
        "turn on appendonly",
        otherwise="warn",
    )
    yield _judged(
        name,
        f"its clock differs by {facts.skew_s:.3f} s",
        abs(facts.skew_s) <= LARGEST_SKEW_S,
        "synchronize the clocks of both machines",
        otherwise="warn",
    )


async def _upstream(upstream: Upstream) -> Finding:
    """Whether it can be connected to, with its certificate. It is asked nothing."""
    name = f"UPSTREAM_{upstream.name.upper()}"
    if upstream.key is None:
        mend = f"set {name}_KEY; to nothing, if it needs none"
        return Finding(name, "warn", "has no key: its requests are answered 503", mend)
    parts = urlsplit(upstream.url)
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    try:
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer within {PATIENCE_S:g} s"
        mend = f"see that {name}_URL is right and that this machine may connect there"
        return Finding(name, "fail", f"{parts.hostname}:{port} cannot be reached: {reason}", mend)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return Finding(name, "ok", f"{parts.hostname}:{port} can be reached")


def _files() -> Finding:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_enough = limit == resource.RLIM_INFINITY or limit >= FEW_FILES
    mend = f"raise it (ulimit -n) to {FEW_FILES} or more: each request under way needs two"
    return _judged("open files", f"{limit} allowed", is_enough, mend, otherwise="warn")


def _port(port: int) -> Finding:
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        mend = "choose another PORT, unless a gateway is running here"
        return Finding("PORT", "warn", f"{port} cannot be served on: {error.strerror}", mend)
    return Finding("PORT", "ok", f"{port} is free")


def _judged(
    name: str, text: str, is_ok: bool, mend: str, *, otherwise: State = "fail"  # noqa: FBT001 - the verdict is what it is called for
) -> Finding:  # fmt: skip
    return Finding(name, "ok", text) if is_ok else Finding(name, otherwise, text, mend)

"""The only reader of the environment: every setting beside its variable, bound and meaning.

A variable that is set to nothing counts as unset, except `UPSTREAM_<NAME>_KEY`, where nothing
means that the upstream asks for no key. A value that cannot be read stops the start: all faults
are reported at once, each naming its variable and what it accepts. No value of a secret variable
is ever part of a message.
"""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from db.limits import MAX_LIMIT, Limits
from gateway.proxies import proxy_fault

Dialect = Literal["openai", "anthropic"]
LimitValue = Annotated[int, Meta(ge=0, le=MAX_LIMIT)]

PUBLIC_UPSTREAMS: dict[str, tuple[str, Dialect]] = {
    "openai": ("https://api.openai.com", "openai"),
    "anthropic": ("https://api.anthropic.com", "anthropic"),
}
RESERVED_NAMES = frozenset(
    {"dashboard", "graphql", "healthz", "limits", "metrics", "openapi", "readyz", "static", "v1"}
)
_UPSTREAM_VARIABLE = re.compile(r"UPSTREAM_([A-Z0-9_]+)_(URL|KEY|DIALECT|STREAM_USAGE)")


class SettingsError(ValueError):
    """A setting cannot be used. The message has one line for each fault."""


class Upstream(msgspec.Struct, frozen=True):
    """A provider's endpoint. `key` None: not set, so nothing is forwarded; "": none is needed."""

    name: str
    url: str
    dialect: Dialect
    key: str | None
    stream_usage: bool = True

    @property
    def is_incomplete(self) -> bool:
        """Somebody has set it up, but without a key. Of the public ones, not all have to be."""
        is_offered = PUBLIC_UPSTREAMS.get(self.name) == (self.url, self.dialect)
        return self.key is None and not is_offered

    def __repr__(self) -> str:
        return f"Upstream({self.name} -> {self.url}, {self.dialect})"


class Settings(msgspec.Struct, frozen=True, rename="upper"):
    """What the environment said. Times carry their unit in the name."""

    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port to serve on")] = 8000
    web_concurrency: Annotated[int, Meta(ge=1, le=256, description="worker processes")] = 1
    database_url: Annotated[
        str, Meta(pattern="^postgres(ql)?://", description="Postgres, with sslmode if needed")
    ] = ""
    redis_url: Annotated[str, Meta(pattern="^rediss?://", description="Redis or Valkey")] = ""
    redis_ca_file: Annotated[str, Meta(description="CA certificate file for rediss://")] = ""
    redis_tls_verify: Annotated[
        bool, Meta(description="false accepts any certificate of rediss://")
    ] = True
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least level logged")
    ] = "info"
    log_format: Annotated[Literal["json", "console"], Meta(description="shape of a log line")] = (
        "json"
    )
    access_log: Annotated[bool, Meta(description="false writes no line for each request")] = True
    default_agent_rpm: Annotated[
        LimitValue | None, Meta(description="requests per minute of each agent; unset = no limit")
    ] = None
    default_org_rpm: Annotated[
        LimitValue | None,
        Meta(description="requests per minute of each organization; unset = no limit"),
    ] = None
    global_rpm: Annotated[
        LimitValue | None,
        Meta(description="requests per minute of the whole platform; unset = no limit"),
    ] = None
    default_org_tokens_per_month: Annotated[
        LimitValue | None,
        Meta(description="token ceiling per organization and UTC month; unset = no limit"),
    ] = None
    default_output_tokens: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="output tokens held where the client states no max"),
    ] = 512
    reservation_lease_s: Annotated[
        int, Meta(ge=1, le=86_400, description="how long a reservation of a lost request stands")
    ] = 1800
    limiter_deadline_ms: Annotated[
        int, Meta(ge=1, le=10_000, description="wait for a decision before failing open")
    ] = 50
    trusted_proxies: Annotated[
        int,
        Meta(ge=0, le=10, description="proxies in front, each of which adds to X-Forwarded-For"),
    ] = 0
    shutdown_grace_s: Annotated[
        float, Meta(ge=0, le=600, description="how long open streams may go on after SIGTERM")
    ] = 20.0
    config_poll_s: Annotated[
        float, Meta(ge=0.1, le=3600, description="full check of keys and limits in Postgres")
    ] = 30.0
    upstream_connect_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="wait for a connection to an upstream")
    ] = 10.0
    upstream_idle_timeout_s: Annotated[
        float, Meta(gt=0, le=86_400, description="longest silence of an upstream")
    ] = 900.0
    client_head_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="wait for the whole head of a request")
    ] = 60.0
    client_idle_timeout_s: Annotated[
        float, Meta(gt=0, le=86_400, description="longest silence of a client within a body")
    ] = 600.0
    upstream_transport: Annotated[
        Literal["lean", "aiohttp"], Meta(description="how upstreams are spoken to")
    ] = "lean"
    request_max_bytes: Annotated[
        int, Meta(ge=1, le=2**40, description="longest request body; more is answered 413")
    ] = 100_000_000
    upstreams: dict[str, Upstream] = {}

    @property
    def defaults(self) -> Limits:
        """The platform defaults, which an organization or agent inherits."""
        return Limits(
            agent_rpm=self.default_agent_rpm,
            org_rpm=self.default_org_rpm,
            global_rpm=self.global_rpm,
            org_tokens_per_month=self.default_org_tokens_per_month,
        )

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "Settings":
        """Read every variable; raise SettingsError with all faults."""
        faults: list[str] = []
        values: dict[str, object] = {}
        for field in msgspec.structs.fields(cls):
            raw = env.get(field.encode_name, "")
            if field.name == "upstreams" or not raw:
                continue
            try:
                values[field.name] = msgspec.convert(raw, field.type, strict=False)
            except msgspec.ValidationError as error:
                faults.append(_fault(field.encode_name, raw, _problem(field.type, error)))
        upstreams = _upstreams(env, faults)
        if faults:
            raise SettingsError("\n".join(faults))
        return cls(upstreams=upstreams, **values)  # type: ignore[arg-type]  # converted above

    def __repr__(self) -> str:
        return f"Settings(port={self.port}, upstreams={sorted(self.upstreams)})"


def environment() -> Mapping[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)


def _problem(of_type: Any, error: msgspec.ValidationError) -> str:
    """What is accepted; of a choice, msgspec tells only that this is none."""
    kind = get_args(of_type)[0]
    if get_origin(kind) is Literal:
        return f"expected one of {', '.join(get_args(kind))}"
    return str(error)


def _fault(variable: str, raw: str, problem: str) -> str:
    secret = variable in {"DATABASE_URL", "REDIS_URL"}
    shown = "(not shown)" if secret else repr(raw)
    return f"{variable}={shown}: {problem[0].lower()}{problem[1:]}"


def _upstreams(env: Mapping[str, str], faults: list[str]) -> dict[str, Upstream]:
    names = set(PUBLIC_UPSTREAMS)
    for variable in env:
        if match := _UPSTREAM_VARIABLE.fullmatch(variable):
            names.add(match[1].lower())
    found = {}
    for name in sorted(names):
        if upstream := _upstream(name, env, faults):
            found[name] = upstream
    return found


def _upstream(name: str, env: Mapping[str, str], faults: list[str]) -> Upstream | None:
    prefix = f"UPSTREAM_{name.upper()}_"
    url, dialect = PUBLIC_UPSTREAMS.get(name, ("", "openai"))
    url = env.get(f"{prefix}URL") or url
    dialect_text = env.get(f"{prefix}DIALECT") or dialect
    stream_usage = env.get(f"{prefix}STREAM_USAGE") or "true"
    before = len(faults)
    if name in RESERVED_NAMES:
        faults.append(f"{prefix}URL: the path /{name} is Ibex's own; choose another name")
    if problem := _url_problem(url):
        faults.append(f"{prefix}URL: {problem}")
    if dialect_text not in ("openai", "anthropic"):
        faults.append(f"{prefix}DIALECT={dialect_text!r}: expected openai or anthropic")
    if stream_usage not in ("true", "false"):
        faults.append(f"{prefix}STREAM_USAGE={stream_usage!r}: expected true or false")
    key = env.get(f"{prefix}KEY")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        faults.append(f"{prefix}KEY: expected printable ASCII without spaces")
    elif key is not None and (problem := proxy_fault(env, url)):
        faults.append(problem)
    if len(faults) > before:
        return None
    return Upstream(
        name=name,
        url=url.rstrip("/"),
        dialect=dialect_text,  # type: ignore[arg-type]  # one of the two, checked above
        key=key,
        stream_usage=stream_usage == "true",
    )


def _url_problem(url: str) -> str:
    expected = "expected http://host or https://host, with a path if the API has one"
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return expected
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        return expected
    if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        return "a query, a fragment or credentials do not belong here"
    return ""

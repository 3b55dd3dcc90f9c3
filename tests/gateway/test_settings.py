"""The environment: every fault is named with what is accepted, and no secret is ever repeated."""

import os
import subprocess
import sys

import pytest

from db.limits import MAX_LIMIT, Limits
from gateway.settings import RESERVED_NAMES, Settings, SettingsError, Upstream, environment

REQUIRED = {
    "DATABASE_URL": "postgres://ibex:pg-secret@localhost/ibex",
    "REDIS_URL": "redis://:redis-secret@localhost:6379",
}


def faults(**env: str) -> list[str]:
    """One line for each fault."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_env({**REQUIRED, **env})
    return str(caught.value).splitlines()


def settings(**env: str) -> Settings:
    return Settings.from_env({**REQUIRED, **env})


BAD = {
    "PORT": ["http", "0", "-1", "65536", "80.5", " ", "0x50"],
    "WEB_CONCURRENCY": ["0", "257", "auto", "-2"],
    "DATABASE_URL": ["mysql://x", "localhost", "postgresqlite://x", "POSTGRES://x"],
    "REDIS_URL": ["http://x", "localhost:6379", "redis:x", "unix:///x"],
    "REDIS_TLS_VERIFY": ["no-thanks", "2"],
    "LOG_LEVEL": ["verbose", "INFO", "30"],
    "LOG_FORMAT": ["xml"],
    "ACCESS_LOG": ["perhaps"],
    "DEFAULT_AGENT_RPM": ["-1", "many", "1.5", str(MAX_LIMIT + 1), "none"],
    "DEFAULT_ORG_RPM": ["-1", "unlimited"],
    "GLOBAL_RPM": ["-1", "1e99"],
    "DEFAULT_ORG_TOKENS_PER_MONTH": ["-1", "10M", "9007199254740993000000"],
    "DEFAULT_OUTPUT_TOKENS": ["-1", "1000001"],
    "RESERVATION_LEASE_S": ["0", "86401"],
    "LIMITER_DEADLINE_MS": ["0", "10001", "50ms"],
    "TRUSTED_PROXIES": ["-1", "11", "all"],
    "SHUTDOWN_GRACE_S": ["-1", "601", "nan"],
    "CONFIG_POLL_S": ["0", "3601", "inf"],
    "UPSTREAM_CONNECT_TIMEOUT_S": ["0", "601"],
    "CLIENT_HEAD_TIMEOUT_S": ["0", "601", "nan"],
    "CLIENT_IDLE_TIMEOUT_S": ["0", "86401", "nan"],
    "UPSTREAM_IDLE_TIMEOUT_S": ["0", "86401", "nan"],
    "UPSTREAM_TRANSPORT": ["httpx", "Lean"],
    "REQUEST_MAX_BYTES": ["0", "100MB", str(2**40 + 1)],
}


@pytest.mark.parametrize(
    ("variable", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_bad_value_stops_the_start_and_is_named(variable: str, value: str) -> None:
    """One line: the variable, what it was unless it is secret, and what is accepted."""
    (line,) = faults(**{variable: value})
    name, _, rest = line.partition("=")
    assert name == variable
    shown, _, accepted = rest.partition(": ")
    is_secret = variable in REQUIRED
    assert shown == ("(not shown)" if is_secret else repr(value))
    assert accepted.startswith("expected")


@pytest.mark.parametrize("variable", BAD)
def test_every_variable_says_what_it_accepts(variable: str) -> None:
    """A bound, a pattern, a type, or the names: something that mends the fault."""
    (line,) = faults(**{variable: BAD[variable][0]})
    hints = (
        ">=",
        "<=",
        "`int`",
        "`float`",
        "`bool`",
        "matching regex",
        "null",
        "debug, info",
        "json, console",
        "lean, aiohttp",
    )
    assert any(hint in line for hint in hints), line


def test_every_field_has_a_bad_value_here() -> None:
    """A new setting needs a look at what it refuses."""
    free = {"REDIS_CA_FILE", "UPSTREAMS"}
    assert {name.upper() for name in Settings.__struct_fields__} - free == set(BAD)


def test_all_faults_are_told_at_once() -> None:
    """Nobody has to start again for each of them."""
    lines = faults(PORT="x", LOG_LEVEL="y", GLOBAL_RPM="-1", UPSTREAM_MINE_URL="z")
    assert [line.partition("=")[0].partition(":")[0] for line in lines] == [
        "PORT",
        "LOG_LEVEL",
        "GLOBAL_RPM",
        "UPSTREAM_MINE_URL",
    ]


def test_no_secret_is_part_of_a_message_or_a_representation() -> None:
    """URLs and keys hold passwords: they are not repeated, wherever they are wrong."""
    secrets = {
        "DATABASE_URL": "mysql://ibex:hunter2@localhost",
        "REDIS_URL": "http://:hunter2@localhost",
        "UPSTREAM_MINE_URL": "https://me:hunter2@api.test",
        "UPSTREAM_OPENAI_KEY": "sk hunter2",
    }
    with pytest.raises(SettingsError) as caught:
        Settings.from_env(secrets)
    assert len(str(caught.value).splitlines()) == 4
    assert "hunter2" not in str(caught.value)
    good = settings(UPSTREAM_OPENAI_KEY="sk-hunter2")
    assert "hunter2" not in repr(good) + repr(good.upstreams)
    assert "secret" not in repr(good)


def test_empty_is_unset() -> None:
    """A variable set to nothing has its default, for settings and upstreams alike."""
    names = [*BAD, "UPSTREAM_OPENAI_URL", "UPSTREAM_OPENAI_DIALECT", "UPSTREAM_OPENAI_STREAM_USAGE"]
    assert Settings.from_env(dict.fromkeys(names, "")) == Settings.from_env({})


def test_the_defaults_limit_nothing_and_know_two_upstreams() -> None:
    """Without a variable: port 8000, one worker, no limit, the public providers without a key."""
    found = Settings.from_env({})
    assert (found.port, found.web_concurrency) == (8000, 1)
    assert found.defaults == Limits(
        agent_rpm=None, org_rpm=None, global_rpm=None, org_tokens_per_month=None
    )
    assert found.upstreams == {
        "anthropic": Upstream("anthropic", "https://api.anthropic.com", "anthropic", None),
        "openai": Upstream("openai", "https://api.openai.com", "openai", None),
    }


def test_limits_are_read_from_0_to_the_largest() -> None:
    """0 is a limit, not the absence of one."""
    found = settings(
        DEFAULT_AGENT_RPM="0",
        DEFAULT_ORG_RPM="600",
        GLOBAL_RPM="6000",
        DEFAULT_ORG_TOKENS_PER_MONTH=str(MAX_LIMIT),
    )
    assert found.defaults == Limits(
        agent_rpm=0, org_rpm=600, global_rpm=6000, org_tokens_per_month=MAX_LIMIT
    )


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("false", False), ("0", False), ("1", True)]
)
def test_switches_are_read(text: str, value: bool) -> None:
    """The common spellings of yes and no."""
    assert settings(REDIS_TLS_VERIFY=text).redis_tls_verify is value


def test_an_upstream_is_made_of_its_variables() -> None:
    """Name in lower case, dialect openai unless said, a key that may be empty, a bare URL."""
    found = settings(
        UPSTREAM_MINE_URL="http://localhost:11434/api/",
        UPSTREAM_MINE_KEY="",
        UPSTREAM_EU_WEST_URL="https://eu.test",
        UPSTREAM_EU_WEST_DIALECT="anthropic",
        UPSTREAM_EU_WEST_KEY="k",
        UPSTREAM_EU_WEST_STREAM_USAGE="false",
        UPSTREAM_OPENAI_URL="https://proxy.test/v2",
    ).upstreams
    assert set(found) == {"anthropic", "eu_west", "mine", "openai"}
    assert found["mine"] == Upstream("mine", "http://localhost:11434/api", "openai", "")
    assert found["eu_west"] == Upstream("eu_west", "https://eu.test", "anthropic", "k", False)
    assert found["openai"] == Upstream("openai", "https://proxy.test/v2", "openai", None)


BAD_UPSTREAMS = {
    "UPSTREAM_MINE_URL": [
        "localhost:8080",
        "ftp://x",
        "https://",
        "http://x:port",
        "http://x:99999",
        "http://x:0",
        "https://x?a=1",
        "https://x#a",
        "https://me@x",
        "http://[::1",
        "/v1",
    ],
    "UPSTREAM_OPENAI_DIALECT": ["gemini", "OpenAI"],
    "UPSTREAM_OPENAI_STREAM_USAGE": ["maybe", "1"],
    "UPSTREAM_OPENAI_KEY": ["two words", "naïve", "line\nfeed", "tab\t"],
}


@pytest.mark.parametrize(
    ("variable", "value"),
    [(name, value) for name, values in BAD_UPSTREAMS.items() for value in values],
)
def test_a_bad_upstream_stops_the_start_and_is_named(variable: str, value: str) -> None:
    """The variable and what it should be; an upstream is never half there."""
    (line,) = faults(**{variable: value})
    assert line.startswith(variable)
    assert "expected" in line or "do not belong" in line
    assert variable.endswith(("DIALECT", "USAGE")) or f"={value}" not in line


def test_an_upstream_without_a_url_is_a_fault() -> None:
    """A key alone says that somebody has forgotten, or misspelled, the rest."""
    (line,) = faults(UPSTREAM_MINE_KEY="k")
    assert line.startswith("UPSTREAM_MINE_URL: expected http://")


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_ibexs_own_paths_are_no_upstreams_names(name: str) -> None:
    """An upstream must not take over the dashboard, or the dashboard an upstream."""
    (line,) = faults(**{f"UPSTREAM_{name.upper()}_URL": "https://x.test"})
    assert line == (
        f"UPSTREAM_{name.upper()}_URL: the path /{name} is Ibex's own; choose another name"
    )


def test_serve_stops_with_every_fault_and_no_trace() -> None:
    """What the process says: each fault in a line, exit code 2."""
    env = {"PATH": os.environ["PATH"], "PORT": "x", "GLOBAL_RPM": "-1", **REQUIRED}
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "serve"], env=env, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: PORT='x': expected")
    assert second.startswith("GLOBAL_RPM='-1': expected")


def test_the_environment_is_a_copy() -> None:
    """What is read once does not change under a running gateway."""
    assert environment() == dict(os.environ)
    assert environment() is not os.environ

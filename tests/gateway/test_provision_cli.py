import asyncio
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import redis.asyncio

from db.api_keys import Role, well_formed
from db.migrate import migrate

NOWHERE = str(uuid4())


@dataclass(frozen=True)
class Terminal:
    """Runs `ibex` as a deployer does, in an empty folder and with an environment of its own."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "gateway", *args],
            env={**self.environment, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def json(self, *args: str) -> Any:
        """Run a command that must succeed, and read what it prints."""
        done = self.run(*args, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    def fails(self, code: int, *args: str, **environment: str) -> str:
        """Run a command that must fail with one line on stderr, and return it."""
        done = self.run(*args, **environment)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
        return done.stderr


@pytest.fixture
def empty(tmp_path: Path, database_url: str, redis_url: str) -> Terminal:
    """A terminal whose database is empty."""
    path = os.environ["PATH"]
    urls = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    return Terminal(tmp_path, {"PATH": path, "COLUMNS": "100", **urls})


@pytest.fixture
async def terminal(empty: Terminal, database_url: str) -> Terminal:
    """A terminal whose database is up to date."""
    await migrate(database_url)
    return empty


def organization_with_agent(terminal: Terminal) -> tuple[str, str]:
    org_id = terminal.json("org", "create", "Acme")["id"]
    return org_id, terminal.json("agent", "create", "--org", org_id, "bot")["id"]


def test_migrate_applies_once_and_says_what(empty: Terminal) -> None:
    """The first run names what it applied, the next finds nothing to do."""
    assert "run `ibex migrate`" in empty.fails(1, "org", "list")

    first, second = empty.run("migrate"), empty.run("migrate")

    assert (first.returncode, second.returncode) == (0, 0)
    assert "applied 2026" in first.stdout
    assert "up to date" in second.stdout
    assert empty.json("org", "list") == []


async def test_migrate_twice_at_once_succeeds_twice(empty: Terminal) -> None:
    """Two releases that start together both come up, and each migration is applied once."""
    runs = await asyncio.gather(
        *(asyncio.to_thread(empty.run, "migrate", "--json") for _ in range(2))
    )

    assert [run.returncode for run in runs] == [0, 0]
    assert len([run for run in runs if json.loads(run.stdout)]) == 1


def test_everything_is_provisioned_from_the_command_line(terminal: Terminal) -> None:
    """Organization, agent, keys of each role: all are created, listed, and have an id."""
    org_id, agent_id = organization_with_agent(terminal)

    assert [row["id"] for row in terminal.json("org", "list")] == [org_id]
    for role, options in {
        Role.AGENT: ["--agent", agent_id],
        Role.ADMIN: ["--org", org_id, "--role", "admin"],
        Role.READ_ONLY: ["--org", org_id, "--role", "read_only"],
        Role.PLATFORM: ["--platform"],
    }.items():
        issued = terminal.json("key", "issue", *options, "--name", "laptop")
        assert well_formed(issued["key"]) is role
        revoked = terminal.json("key", "revoke", issued["id"])
        assert (revoked["id"], revoked["role"], revoked["name"]) == (issued["id"], role, "laptop")
        assert revoked["revoked_at"] is not None


def test_people_get_short_text(terminal: Terminal) -> None:
    """Without --json each command prints what a person needs next, ids and the key included."""
    org_id = terminal.run("org", "create", "Acme").stdout.split()[2]
    agent_id = terminal.run("agent", "create", "bot", "--org", org_id).stdout.split()[2]
    issued = terminal.run("key", "issue", "--agent", agent_id).stdout.splitlines()
    listed = terminal.run("org", "list").stdout

    assert listed == f"{org_id}  Acme\n"
    assert well_formed(issued[0]) is Role.AGENT
    assert "not shown again" in issued[1]


def test_limits_are_set_shown_and_inherited_again(terminal: Terminal) -> None:
    """What is set here, what is inherited and from where, as text and as JSON."""
    org_id, agent_id = organization_with_agent(terminal)
    agent = ("--org", org_id, "--agent", agent_id)
    terminal.json("limits", "set", "--org", org_id, "--rpm", "600", "--tokens", "9007199254740991")

    changed = terminal.json("limits", "set", *agent, "--rpm", "0")
    text = terminal.run("limits", "show", *agent, GLOBAL_RPM="7000").stdout.splitlines()
    terminal.json("limits", "set", "--org", org_id, "--rpm", "inherit")
    inherited = terminal.json("limits", "show", *agent)

    assert (changed["id"], changed["published"]) == (agent_id, True)
    assert changed["limits"] == {
        "agent_rpm": 0,
        "org_rpm": 600,
        "global_rpm": None,
        "org_tokens_per_month": 9007199254740991,
    }
    assert [" ".join(line.split()) for line in text] == [
        "requests per minute, agent 0 set here",
        "requests per minute, organization 600 from the organization",
        "requests per minute, platform 7,000 from the platform",
        "tokens per month, organization 9,007,199,254,740,991 from the organization",
    ]
    assert inherited["limits"]["org_rpm"] is None
    assert inherited["sources"]["org_rpm"] == "platform"
    assert inherited["override"] == {"requests_per_minute": 0, "tokens_per_month": None}


async def test_change_is_recorded_under_the_account_that_made_it(
    terminal: Terminal, database_url: str
) -> None:
    """The record names the account of the process, whatever its environment claims."""
    org_id, _ = organization_with_agent(terminal)

    terminal.run("limits", "set", "--org", org_id, "--rpm", "7", LOGNAME="eve", USER="eve")

    connection = await asyncpg.connect(database_url)
    record = await connection.fetch("SELECT actor, via, new FROM ibex_core.rate_limit_changes")
    await connection.close()
    account = pwd.getpwuid(os.getuid()).pw_name
    assert [tuple(row) for row in record] == [(f"cli:{account}", "cli", 7)]


async def test_changes_are_published_on_redis(terminal: Terminal, redis_url: str) -> None:
    """Whoever listens hears of the organization after each change of agents, keys and limits."""
    org_id = terminal.json("org", "create", "Acme")["id"]
    async with redis.asyncio.Redis.from_url(redis_url) as client, client.pubsub() as listener:
        await listener.subscribe(f"ratelimit:config:updated:{org_id}")
        await listener.get_message(timeout=5)

        async def heard(*args: str) -> Any:
            done = await asyncio.to_thread(terminal.json, *args)
            message = await listener.get_message(ignore_subscribe_messages=True, timeout=5)
            assert message is not None, args
            return done

        agent = await heard("agent", "create", "--org", org_id, "bot")
        key = await heard("key", "issue", "--agent", agent["id"])
        await heard("limits", "set", "--org", org_id, "--rpm", "7")
        await heard("key", "revoke", key["id"])


def test_change_without_redis_stands_and_says_so(terminal: Terminal) -> None:
    """With Redis down a limit is changed all the same; a note says when gateways follow."""
    org_id, _ = organization_with_agent(terminal)
    unreachable = "redis://:hunter2@127.0.0.1:1/0"

    done = terminal.run(
        "limits", "set", "--org", org_id, "--rpm", "7", "--json", REDIS_URL=unreachable
    )

    assert done.returncode == 0
    assert json.loads(done.stdout)["published"] is False
    assert "next poll" in done.stderr
    assert "hunter2" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert terminal.json("limits", "show", "--org", org_id)["limits"]["org_rpm"] == 7


def test_unreadable_redis_url_stops_a_change_before_it_is_made(terminal: Terminal) -> None:
    """A change that could never be published is not made, and the password is not shown."""
    create = ("agent", "create", "--org", terminal.json("org", "create", "Acme")["id"], "bot")

    message = terminal.fails(2, *create, REDIS_URL="redis://:hunter2/x@127.0.0.1:6379/0")

    assert "REDIS_URL cannot be read" in message
    assert "hunter2" not in message
    assert terminal.json("org", "list")[0]["version"] == 1


@pytest.mark.parametrize(
    ("args", "mend"),
    [
        (("org", "create", ""), "name: must not be empty"),
        (("org", "create", "a\nb"), "name: must be one line"),
        (("agent", "create", "--org", "nope", "bot"), "org_id: must be a UUID"),
        (("agent", "create", "--org", NOWHERE, "bot"), f"there is no organization {NOWHERE}"),
        (("key", "issue"), "give --agent ID, or --org ID with --role, or --platform"),
        (("key", "issue", "--org", NOWHERE), "give --agent ID, or --org ID with --role"),
        (("key", "issue", "--agent", NOWHERE, "--platform"), "give --agent ID, or"),
        (("key", "revoke", NOWHERE), f"there is no key {NOWHERE}"),
        (("limits", "set", "--org", NOWHERE), "give --rpm or --tokens"),
        (("limits", "set", "--org", NOWHERE, "--rpm", "-1"), "requests_per_minute: must be a"),
        (("limits", "set", "--org", NOWHERE, "--rpm", "1.5"), "--rpm: must be a whole number"),
        (("limits", "set", "--org", NOWHERE, "--tokens", "9007199254740992"), "tokens_per_month"),
        (("limits", "set", "--org", NOWHERE, "--agent", NOWHERE, "--tokens", "1"), "tokens_per"),
        (("limits", "show", "--org", NOWHERE), f"there is no organization {NOWHERE}"),
    ],
)
def test_bad_input_is_one_line_that_says_what_is_right(
    terminal: Terminal, args: tuple[str, ...], mend: str
) -> None:
    """Mistakes end with exit code 2 and one line; never with a traceback."""
    assert mend in terminal.fails(2, *args)


@pytest.mark.parametrize("args", [("migrate",), ("org", "list"), ("org", "create", "Acme")])
@pytest.mark.parametrize(
    "url",
    [
        "postgres://ibex:hunter2@127.0.0.1:1/db",
        "postgres://ibex:hunter2/x@127.0.0.1:1/db",
        "postgres://ibex:hunter2@nowhere.invalid/db",
    ],
)
def test_unreachable_database_is_one_line_without_the_password(
    empty: Terminal, args: tuple[str, ...], url: str
) -> None:
    """A server that is not there ends the command with exit code 1, and shows no secret."""
    assert "hunter2" not in empty.fails(1, *args, DATABASE_URL=url)


def test_mistyped_setting_stops_the_command(terminal: Terminal) -> None:
    """A default limit that cannot be read is reported instead of shown as no limit."""
    assert "GLOBAL_RPM" in terminal.fails(2, "org", "list", GLOBAL_RPM="many")


def test_servers_of_ibex_dev_are_used_where_none_is_named(
    terminal: Terminal, database_url: str, redis_url: str
) -> None:
    """Without variables the commands reach the `ibex dev` of .ibex, or of the folder named."""
    dev = json.dumps({"database_url": database_url, "redis_url": redis_url, "agents": []})
    for name in (".ibex", "elsewhere"):
        (terminal.folder / name).mkdir()
        (terminal.folder / name / "dev.json").write_text(dev)
    bare = Terminal(terminal.folder, {**terminal.environment, "DATABASE_URL": "", "REDIS_URL": ""})

    org_id, _ = organization_with_agent(bare)

    listed = bare.json("org", "list", "--data", "elsewhere")
    assert [row["id"] for row in listed] == [org_id]


def test_without_any_server_the_error_names_variable_and_file(terminal: Terminal) -> None:
    """A command that does not know where to go says both ways to tell it."""
    no_database = terminal.fails(2, "org", "list", DATABASE_URL="")
    no_redis = terminal.fails(2, "agent", "create", "--org", NOWHERE, "bot", REDIS_URL="")

    assert "DATABASE_URL is not set" in no_database
    assert ".ibex/dev.json" in no_database
    assert "REDIS_URL is not set" in no_redis
    assert terminal.run("org", "list", REDIS_URL="").returncode == 0


@pytest.mark.parametrize("content", ["", "[]", '{"database_url": 7}'])
def test_unreadable_dev_file_is_named(terminal: Terminal, content: str) -> None:
    """A file that is not what `ibex dev` writes is reported with its path."""
    (terminal.folder / ".ibex").mkdir()
    (terminal.folder / ".ibex" / "dev.json").write_text(content)

    assert ".ibex/dev.json cannot be read" in terminal.fails(2, "org", "list", DATABASE_URL="")


@pytest.mark.parametrize(
    "command",
    [
        *("migrate", "org create", "org list", "agent create", "key issue", "key revoke"),
        *("limits show", "limits set"),
    ],
)
def test_every_command_has_help(terminal: Terminal, command: str) -> None:
    """Help says what a command does and knows --json and --data."""
    done = terminal.run(*command.split(), "--help")

    assert done.returncode == 0
    assert "--json" in done.stdout
    assert "--data" in done.stdout

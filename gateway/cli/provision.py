"""The commands that provision: organizations, agents, keys and limits, and the schema."""

import asyncio
import os
import pwd
from dataclasses import asdict
from typing import Annotated, Literal

import typer
from msgspec import UNSET, UnsetType

from db.api_keys import Role
from db.limits import MAX_LIMIT, Limits, OverrideChange
from db.migrate import migrate as apply_migrations
from gateway.cli.operation import (
    DEFAULT_DATA,
    Data,
    Json,
    change,
    database_url,
    read,
    reported,
    show,
    show_outcome,
)
from graphql_api.errors import BadInput
from graphql_api.limits_view import Level, LimitsView
from graphql_api.service import IssuedKey, Outcome, Service

organizations = typer.Typer(help="Organizations.", no_args_is_help=True)
agents = typer.Typer(help="Agents of an organization.", no_args_is_help=True)
keys = typer.Typer(help="API keys of agents and operators.", no_args_is_help=True)
limits = typer.Typer(
    help="Limits: requests per trailing minute, and tokens per UTC month.", no_args_is_help=True
)

_LONGEST_NUMBER = len(str(MAX_LIMIT))
_ROWS = (
    ("agent_rpm", "requests per minute, agent"),
    ("org_rpm", "requests per minute, organization"),
    ("global_rpm", "requests per minute, platform"),
    ("org_tokens_per_month", "tokens per month, organization"),
)

OrgId = Annotated[str, typer.Option("--org", metavar="ID", help="Id of the organization.")]
AgentId = Annotated[
    str | None, typer.Option("--agent", metavar="ID", help="Id of the agent; none: all of it.")
]
Name = Annotated[str, typer.Argument(help="What people call it, 1 to 200 characters.")]
LimitText = Annotated[
    str | None,
    typer.Option(metavar="N|inherit", help="New limit; 0 admits nothing; unnamed ones stay."),
]


def register(app: typer.Typer) -> None:
    """Mount the commands on the `ibex` command."""
    app.command("migrate")(migrate)
    app.add_typer(organizations, name="org")
    app.add_typer(agents, name="agent")
    app.add_typer(keys, name="key")
    app.add_typer(limits, name="limits")


def migrate(*, data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """Bring Postgres up to date. Safe when run twice at once."""
    with reported():
        applied = asyncio.run(apply_migrations(database_url(data)))
    text = "\n".join(f"applied {name}" for name in applied) or "up to date: nothing to apply"
    show(applied, as_json=as_json, text=text)


@organizations.command("create")
def create_organization(name: Name, *, data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """Create an organization. It has the platform's default limits."""
    created = read(data, lambda service, _: service.create_organization(name))
    show(created, as_json=as_json, text=f"created organization {created.id}  {created.name}")


@organizations.command("list")
def list_organizations(*, data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """List all organizations, the oldest first."""
    found = read(data, lambda service, _: service.list_organizations())
    text = "\n".join(f"{organization.id}  {organization.name}" for organization in found)
    show(found, as_json=as_json, text=text or "there is no organization yet")


@agents.command("create")
def create_agent(
    name: Name, *, org: OrgId, data: Data = DEFAULT_DATA, as_json: Json = False
) -> None:
    """Create an agent in an organization. It needs a key to send traffic."""
    outcome = change(data, lambda service, _: service.create_agent(org, name))
    agent = outcome.value
    show_outcome(outcome, as_json=as_json, text=f"created agent {agent.id}  {agent.name}")


@keys.command("issue")
def issue_key(  # noqa: PLR0913 - each option of the command is an argument
    *,
    agent: Annotated[
        str | None, typer.Option(metavar="ID", help="The agent that sends traffic with it.")
    ] = None,
    org: Annotated[
        str | None, typer.Option(metavar="ID", help="The organization whose operators use it.")
    ] = None,
    role: Annotated[
        Literal["admin", "read_only"] | None, typer.Option(help="What these operators may do.")
    ] = None,
    platform: Annotated[
        bool, typer.Option("--platform", help="For operators of the whole platform.")
    ] = False,
    name: Annotated[str, typer.Option(help="What people call the key.")] = "",
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Issue a key for an agent, for an organization's operators or for the platform's.

    The key is printed once and cannot be read again.
    """

    async def issue(service: Service, _: Limits) -> Outcome[IssuedKey]:
        match (agent, org, role, platform):
            case (str(), None, None, False):
                return await service.issue_agent_key(agent, name)
            case (None, str(), str(), False):
                return await service.issue_operator_key(org, Role(role), name)
            case (None, None, None, True):
                return await service.issue_platform_key(name)
        raise BadInput("key", "give --agent ID, or --org ID with --role, or --platform")

    outcome = change(data, issue)
    key = outcome.value
    text = f"{key.key}\nkey id {key.id}; keep the key now, it is not shown again"
    show_outcome(outcome, as_json=as_json, text=text)


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="KEYID", help="Id of the key.")],
    *,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Revoke a key for ever. Gateways refuse it within a second."""
    outcome = change(data, lambda service, _: service.revoke_key(key_id))
    key = outcome.value
    show_outcome(outcome, as_json=as_json, text=f"revoked key {key.id}  {key.prefix}...")


@limits.command("show")
def show_limits(
    *, org: OrgId, agent: AgentId = None, data: Data = DEFAULT_DATA, as_json: Json = False
) -> None:
    """Show the limits in force for an organization or agent, and where each is set."""
    view = read(data, lambda service, defaults: service.read_limits(org, agent, defaults))
    show(_fields(view), as_json=as_json, text=_table(view))


@limits.command("set")
def set_limits(
    *,
    org: OrgId,
    agent: AgentId = None,
    rpm: LimitText = None,
    tokens: LimitText = None,
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    """Set limits of an organization or agent, or let them be inherited again.

    The change is recorded with your name, and gateways obey it within a second.
    """

    async def update(service: Service, defaults: Limits) -> Outcome[LimitsView]:
        wanted = OverrideChange(_limit("--rpm", rpm), _limit("--tokens", tokens))
        if wanted == OverrideChange():
            raise BadInput("limits", "give --rpm or --tokens")
        outcome = await service.update_limits(org, agent, wanted, f"cli:{_account()}", "cli")
        return Outcome(await service.read_limits(org, agent, defaults), outcome.published)

    outcome = change(data, update)
    fields = {**_fields(outcome.value), "published": outcome.published}
    show(fields, as_json=as_json, text=_table(outcome.value))


def _limit(option: str, text: str | None) -> int | UnsetType | None:
    """Read an option's value; whether the number is in range is the service's to say."""
    if text is None:
        return UNSET
    if text == "inherit":
        return None
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER:
        return int(text)
    raise BadInput(option, f"must be a whole number from 0 to {MAX_LIMIT}, or inherit")


def _account() -> str:
    """Name the account that runs this. LOGNAME and USER could be set to anybody's."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers run with numbers that have no name
        return f"uid {os.getuid()}"


def _fields(view: LimitsView) -> dict[str, object]:
    return {"id": view.agent_id or view.org_id, **asdict(view)}


def _table(view: LimitsView) -> str:
    here = Level.ORGANIZATION if view.agent_id is None else Level.AGENT
    lines = []
    for field, title in _ROWS:
        limit = getattr(view.limits, field)
        source = getattr(view.sources, field)
        shown = "no limit" if limit is None else f"{limit:,}"
        origin = "set here" if source is here else f"from the {source}"
        lines.append(f"{title:<35}{shown:>22}  {origin}")
    return "\n".join(lines)

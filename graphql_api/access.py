"""What a viewer may see, and what it may do to what it sees.

An operator of one organization cannot tell another one from none: both are NotFound, in the same
words, and without a look-up that could take longer for one than for the other.
"""

from db.api_keys import Role
from db.repository import Repository
from db.rows import Target
from graphql_api import inputs
from graphql_api.errors import Forbidden, NotFound
from graphql_api.model import Viewer


def is_platform(viewer: Viewer) -> bool:
    """Whether the viewer runs the platform, and so sees every organization."""
    return viewer.role is Role.PLATFORM


def scope(viewer: Viewer) -> str | None:
    """Return the organization that look-ups are confined to; None: all of them."""
    return None if is_platform(viewer) else viewer.organization_id


def organization(viewer: Viewer, organization_id: object) -> str:
    """Return the id in its one form. Raises NotFound for an organization that is not the viewer's.

    Whether it exists is left to the query that follows.
    """
    org_id = inputs.uuid("organization_id", organization_id)
    if not is_platform(viewer) and org_id != viewer.organization_id:
        raise NotFound("organization", org_id)
    return org_id


def target(viewer: Viewer, organization_id: object, agent_id: object = None) -> Target:
    """Return the ids of an organization that is the viewer's, and of an agent if one is named."""
    agent = None if agent_id is None else inputs.uuid("agent_id", agent_id)
    return organization(viewer, organization_id), agent


def may_write(viewer: Viewer) -> bool:
    """Whether the viewer may change what it sees."""
    return viewer.role in (Role.ADMIN, Role.PLATFORM)


def require_write(viewer: Viewer) -> None:
    """Raise Forbidden for a viewer that only reads."""
    if not may_write(viewer):
        raise Forbidden("this key only reads: a change takes a key of role admin or platform")


async def require_write_to(viewer: Viewer, what: Target, repository: Repository) -> None:
    """Raise NotFound for an agent that is not there, before Forbidden for a viewer that reads."""
    org_id, agent_id = what
    if agent_id is not None and not may_write(viewer):
        await repository.agent(agent_id, org_id)
    require_write(viewer)


async def ids_of_key(
    viewer: Viewer, role: Role, given: tuple[object, object], repository: Repository
) -> tuple[str | None, str | None]:
    """Return organization and agent of a new key of that role, which the viewer may issue.

    An agent's key is given its agent, and may be given the organization; an operator's is given
    the organization, the platform's neither.
    """
    organization_id, agent_id = given
    if role is Role.PLATFORM:
        inputs.absent("organization_id", organization_id, "is not given for a platform key")
        inputs.absent("agent_id", agent_id, "is not given for a platform key")
        require_platform(viewer, "issue platform keys")
        return None, None
    if role is Role.AGENT:
        id_ = inputs.uuid("agent_id", agent_id)
        within = scope(viewer) if organization_id is None else organization(viewer, organization_id)
        agent = await repository.agent(id_, within)
        require_write(viewer)
        return agent.org_id, agent.id
    inputs.absent("agent_id", agent_id, "is given for an agent's key only")
    org_id = organization(viewer, organization_id)
    require_write(viewer)
    return org_id, None


def require_platform(viewer: Viewer, what: str) -> None:
    """Raise Forbidden for everybody but platform operators. `what` is theirs to do."""
    if not is_platform(viewer):
        raise Forbidden(f"only platform operators may {what}")

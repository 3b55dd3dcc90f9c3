"""REST for organizations, agents and keys. All deciding is `Management`'s."""

from sanic import HTTPResponse

from db.api_keys import Role
from graphql_api import rest_bodies as bodies
from graphql_api.model import AgentView, IssuedKeyView, KeyView, OrganizationView
from graphql_api.rest_call import Call, answered, effect
from graphql_api.rest_operation import PLATFORM, WRITERS, Operations

_ORGANIZATION = "/v1/organizations/{organization_id}"

OPERATIONS = Operations()


@OPERATIONS.declare(
    "GET",
    "/v1/organizations",
    "List organizations",
    answer=bodies.Organizations,
    cursor=bodies.UUID_PATTERN,
)
async def list_organizations(call: Call) -> HTTPResponse:
    page = await call.management.organizations(call.viewer, **call.paging())
    return answered(bodies.Organizations(page.items, page.next))


@OPERATIONS.declare(
    "POST",
    "/v1/organizations",
    "Create an organization",
    body=bodies.NewOrganization,
    answer=OrganizationView,
    status=201,
    roles=PLATFORM,
    has_location=True,
)
async def create_organization(call: Call) -> HTTPResponse:
    wanted = call.body(bodies.NewOrganization)
    made = await call.management.create_organization(call.viewer, wanted.name)
    return answered(made, 201, {"Location": f"/v1/organizations/{made.id}"})


@OPERATIONS.declare("GET", _ORGANIZATION, "Read an organization", answer=OrganizationView)
async def read_organization(call: Call) -> HTTPResponse:
    return answered(await call.management.organization(call.viewer, call.organization_id))


@OPERATIONS.declare(
    "GET",
    f"{_ORGANIZATION}/agents",
    "List agents",
    answer=bodies.Agents,
    cursor=bodies.UUID_PATTERN,
)
async def list_agents(call: Call) -> HTTPResponse:
    page = await call.management.agents(call.viewer, call.organization_id, **call.paging())
    return answered(bodies.Agents(page.items, page.next))


@OPERATIONS.declare(
    "POST",
    f"{_ORGANIZATION}/agents",
    "Create an agent",
    body=bodies.NewAgent,
    answer=AgentView,
    status=201,
    roles=WRITERS,
    is_published=True,
    has_location=True,
)
async def create_agent(call: Call) -> HTTPResponse:
    wanted = call.body(bodies.NewAgent)
    made = await call.management.create_agent(call.viewer, call.organization_id, wanted.name)
    headers = {"Location": f"/v1/agents/{made.value.id}", **effect(made)}
    return answered(made.value, 201, headers)


@OPERATIONS.declare("GET", "/v1/agents/{agent_id}", "Read an agent", answer=AgentView)
async def read_agent(call: Call) -> HTTPResponse:
    return answered(await call.management.agent(call.viewer, call.agent_id))


@OPERATIONS.declare(
    "GET", f"{_ORGANIZATION}/keys", "List keys", answer=bodies.Keys, cursor=bodies.UUID_PATTERN
)
async def list_keys(call: Call) -> HTTPResponse:
    page = await call.management.keys(call.viewer, call.organization_id, **call.paging())
    return answered(bodies.Keys(page.items, page.next))


@OPERATIONS.declare(
    "POST",
    f"{_ORGANIZATION}/keys",
    "Issue a key to an agent or operator",
    body=bodies.NewKey,
    answer=IssuedKeyView,
    status=201,
    roles=WRITERS,
    is_published=True,
)
async def issue_key(call: Call) -> HTTPResponse:
    wanted: bodies.NewKey = call.body(bodies.NewKey)  # type: ignore[arg-type] # a union is a shape
    issued = await call.management.issue_key(
        call.viewer,
        role=wanted.role,
        organization_id=call.organization_id,
        agent_id=wanted.agent_id if isinstance(wanted, bodies.NewAgentKey) else None,
        name=wanted.name,
    )
    return answered(issued.value, 201, effect(issued))


@OPERATIONS.declare(
    "POST",
    "/v1/keys",
    "Issue a key to a platform operator",
    body=bodies.NewPlatformKey,
    answer=IssuedKeyView,
    status=201,
    roles=PLATFORM,
    is_published=True,
)
async def issue_platform_key(call: Call) -> HTTPResponse:
    wanted = call.body(bodies.NewPlatformKey)
    issued = await call.management.issue_key(
        call.viewer, role=Role.PLATFORM, organization_id=None, agent_id=None, name=wanted.name
    )
    return answered(issued.value, 201, effect(issued))


@OPERATIONS.declare(
    "DELETE",
    "/v1/keys/{key_id}",
    "Revoke a key for ever",
    answer=KeyView,
    roles=WRITERS,
    is_published=True,
)
async def revoke_key(call: Call) -> HTTPResponse:
    revoked = await call.management.revoke_key(call.viewer, call.ids["key_id"])
    return answered(revoked.value, headers=effect(revoked))

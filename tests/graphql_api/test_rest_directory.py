"""Organizations, agents and keys over REST."""

from typing import Any

import pytest
from rest_server import KEYS, ORGANIZATION, Rest, path_to

from db import api_keys
from db.api_keys import Role


async def test_organization_is_created_and_read(rest: Rest) -> None:
    """The answer names where it is read, and reading gives the same."""
    created = await rest.call("POST", "/v1/organizations", {"name": " Acme "}, role="platform")

    assert (created.status, created.body["name"]) == (201, "Acme")
    assert set(created.body) == {"id", "name", "version", "created_at"}
    read = await rest.call("GET", created.headers["location"], role="platform")
    assert (read.status, read.body) == (200, created.body)


async def test_agent_is_created_read_and_announced(rest: Rest) -> None:
    """Gateways are told of a new agent, and the answer says that they were."""
    path = path_to(f"{ORGANIZATION}/agents", rest.world.ours)

    created = await rest.call("POST", path, {"name": "bot"})

    assert (created.status, created.headers["ibex-takes-effect"]) == (201, "now")
    assert created.body["organization_id"] == rest.world.ours.id
    assert rest.world.channel.published == [rest.world.ours.id]
    read = await rest.call("GET", created.headers["location"])
    assert (read.status, read.body) == (200, created.body)
    assert (await rest.call("GET", path)).body["agents"][-1] == created.body


async def test_operators_list_their_own_organization(rest: Rest) -> None:
    """The platform's operators see all, an organization's their own."""
    ours, theirs = rest.world.ours.id, rest.world.theirs.id

    for role, ids in (("platform", [ours, theirs]), ("admin", [ours]), ("read_only", [ours])):
        found = await rest.read("/v1/organizations", role=role)
        assert [organization["id"] for organization in found["organizations"]] == ids


async def test_lists_come_in_pages(rest: Rest) -> None:
    """Following `next` gives every key once, the oldest first."""
    everything = (await rest.read(KEYS))["keys"]
    assert len(everything) == 3
    found: list[Any] = []
    query = "?first=2"
    while query:
        page = await rest.read(f"{KEYS}{query}")
        found += page["keys"]
        query = f"?first=2&after={page['next']}" if page["next"] else ""

    assert found == everything


@pytest.mark.parametrize("role", ["agent", "admin", "read_only"])
async def test_issued_key_is_shown_once(rest: Rest, role: str) -> None:
    """The secret is in the answer that issues it, and nowhere else."""
    ours = rest.world.ours
    wanted = {"role": role, "name": "laptop"} | (
        {"agent_id": ours.agent_id} if role == "agent" else {}
    )

    issued = await rest.call("POST", path_to(KEYS, ours), wanted)

    assert (issued.status, set(issued.body)) == (201, {"key", "secret"})
    secret, key = issued.body["secret"], issued.body["key"]
    assert api_keys.well_formed(secret) is Role(role)
    assert (key["role"], key["name"], key["organization_id"]) == (role, "laptop", ours.id)
    assert key["agent_id"] == (ours.agent_id if role == "agent" else None)
    assert key["revoked_at"] is None
    assert rest.world.channel.published == [ours.id]
    listed = await rest.read(KEYS)
    assert listed["keys"][-1] == key
    assert secret not in str(listed)


async def test_platform_key_is_the_platforms_to_issue(rest: Rest) -> None:
    """It belongs to no organization, and works at once."""
    issued = await rest.call("POST", "/v1/keys", {}, role="platform")

    assert (issued.status, issued.headers["ibex-takes-effect"]) == (201, "now")
    assert (issued.body["key"]["role"], issued.body["key"]["organization_id"]) == ("platform", None)
    headers = {"Authorization": f"Bearer {issued.body['secret']}"}
    listed = await rest.call("GET", "/v1/organizations", role=None, headers=headers)
    assert len(listed.body["organizations"]) == 2


async def test_revoking_says_since_when_and_can_be_repeated(rest: Rest) -> None:
    """Revoked is revoked: the second time changes nothing, and is no error."""
    path = f"/v1/keys/{rest.world.ours.key_ids[Role.AGENT]}"

    first, second = await rest.call("DELETE", path), await rest.call("DELETE", path)

    assert first.status == second.status == 200
    assert first.body["revoked_at"] is not None
    assert second.body == first.body
    assert set(rest.world.channel.published) == {rest.world.ours.id}

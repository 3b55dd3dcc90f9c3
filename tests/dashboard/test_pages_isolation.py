"""Another organization's pages are, to the byte, those of one that does not exist."""

import re
from itertools import product

import httpx
import pytest
from pages_server import (
    AGENT,
    AGENT_HISTORY,
    AGENT_LIMITS,
    CHANGES,
    HISTORY,
    ORGANIZATION,
    ORGANIZATION_LIMITS,
    Site,
)

from db.api_keys import Role
from graphql_api.errors import NotFound

READ = (
    ORGANIZATION,
    f"{ORGANIZATION}/live",
    CHANGES,
    HISTORY,
    AGENT,
    f"{AGENT}/live",
    AGENT_HISTORY,
)
SENT = (ORGANIZATION_LIMITS, AGENT_LIMITS)
FIELDS = {"version": "1", "requests_per_minute": "5", "tokens_per_month": "5"}
OURS = (Role.ADMIN, Role.READ_ONLY)


def constant(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    """All of an answer that is not of its request alone."""
    moving = {"x-request-id", "date", "content-length"}
    headers = {name: value for name, value in answer.headers.items() if name not in moving}
    return answer.status_code, headers, re.sub(r"req_[0-9a-f]{24}", "", answer.text)


@pytest.mark.parametrize("role", OURS)
async def test_theirs_are_like_nobodys(served: Site, role: Role) -> None:
    """Nothing tells that they are there."""
    for pattern in READ:
        theirs = await served.get(pattern, role, "theirs")
        nobodys = await served.get(pattern, role, "nobody")

        assert theirs.status_code == httpx.codes.NOT_FOUND
        assert constant(theirs) == constant(nobodys)
        assert served.world.theirs.id not in theirs.text
        assert "Theirs" not in theirs.text


@pytest.mark.parametrize("role", OURS)
async def test_their_limits_are_not_changed(served: Site, role: Role) -> None:
    """Nor can it be told whether there are any, whatever is sent."""
    before = await limits_of_theirs(served)

    for pattern, fields in product(SENT, (FIELDS, {"version": "x", "requests_per_minute": "-"})):
        theirs = await served.send(pattern, fields, role, "theirs")
        nobodys = await served.send(pattern, fields, role, "nobody")
        assert theirs.status_code == httpx.codes.NOT_FOUND
        assert constant(theirs) == constant(nobodys)
    assert await limits_of_theirs(served) == before


async def limits_of_theirs(served: Site) -> list[int]:
    world, theirs = served.world, served.world.theirs
    found = await world.management.limits_of(
        world.platform, [(theirs.id, None), (theirs.id, theirs.agent_id)]
    )
    return [each.version for each in found]


async def test_the_platform_sees_all(served: Site) -> None:
    """Theirs too, so that the tests above are about something."""
    for pattern in READ:
        answer = await served.get(pattern, Role.PLATFORM, "theirs")
        assert answer.status_code == httpx.codes.OK

    with pytest.raises(NotFound):
        await served.world.management.organization(served.world.ours.admin, served.world.theirs.id)


async def test_a_key_that_only_reads_changes_nothing(served: Site) -> None:
    """It is told so, and its pages have no form for it but a line."""
    for pattern in SENT:
        for fields in (FIELDS, {"version": "x", "requests_per_minute": "-"}):
            answer = await served.send(pattern, fields, Role.READ_ONLY)
            assert answer.status_code == httpx.codes.FORBIDDEN
            assert "this key only reads" in answer.text
        page = await served.shown(pattern.removesuffix("/limits"), Role.READ_ONLY)
        assert 'name="requests_per_minute"' not in page
        assert "Your key only reads" in page
    assert served.world.channel.published == []

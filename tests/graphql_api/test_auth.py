"""Who may ask: operators with a live key, and nobody else."""

import asyncpg
import pytest
from multidict import CIMultiDict
from operators import NOWHERE, World

from db import api_keys
from db.api_keys import Role
from graphql_api.auth import Authenticator
from graphql_api.errors import DatabaseUnavailable, Unauthenticated
from graphql_api.model import Viewer


@pytest.fixture
def authenticator(operated: World) -> Authenticator:
    """The authenticator of that world."""
    return Authenticator(operated.repository)


def bearer(key: str, scheme: str = "Bearer") -> CIMultiDict[str]:
    return CIMultiDict({"Authorization": f"{scheme} {key}"})


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_operators_are_known_by_their_key(
    operated: World, authenticator: Authenticator, scheme: str
) -> None:
    """Each role of operators comes with its organization, and a name for the audit."""
    ours = operated.ours

    async def who(key: str) -> Viewer:
        return await authenticator.viewer(bearer(key, scheme))

    assert await who(ours.secrets[Role.ADMIN]) == ours.admin
    assert await who(ours.secrets[Role.READ_ONLY]) == ours.read_only
    assert await who(operated.platform_key) == operated.platform
    assert (ours.admin.role, ours.admin.organization_id) == (Role.ADMIN, ours.id)
    assert (operated.platform.role, operated.platform.organization_id) == (Role.PLATFORM, None)
    assert ours.admin.actor == f"key:{ours.key_ids[Role.ADMIN]} Ours admin"


async def refusal(authenticator: Authenticator, headers: CIMultiDict[str]) -> str:
    with pytest.raises(Unauthenticated) as error:
        await authenticator.viewer(headers)
    return str(error.value)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic {key}", "{key}", "Bearer{key}", "Token {key}"]
)
async def test_without_a_bearer_key_it_is_said_what_to_send(
    operated: World, authenticator: Authenticator, header: str
) -> None:
    """No header, another scheme, no key: each is told the header to send."""
    header = header.format(key=operated.platform_key)

    assert "Authorization: Bearer <key>" in await refusal(
        authenticator, CIMultiDict({"Authorization": header})
    )
    assert "Authorization: Bearer <key>" in await refusal(authenticator, CIMultiDict())


async def test_keys_that_are_not_valid_are_refused_alike(
    operated: World, authenticator: Authenticator
) -> None:
    """Mistyped, never issued or revoked: the caller cannot tell which, and sees no key again."""
    revoked = operated.ours.secrets[Role.ADMIN]
    await operated.management.revoke_key(operated.platform, operated.ours.admin.key_id)
    keys = [
        revoked,
        api_keys.generate(Role.ADMIN),
        api_keys.generate(Role.PLATFORM),
        operated.platform_key[:-1],
        operated.platform_key + "x",
        f"{operated.platform_key} {operated.platform_key}",
        "sk-something-else",
        "\x00",
        "é" * 50,
    ]

    told = {await refusal(authenticator, bearer(key)) for key in keys}

    assert told == {"this key is not valid: it is mistyped, unknown or revoked"}


async def test_a_revoked_key_is_refused_with_the_next_request(
    operated: World, authenticator: Authenticator
) -> None:
    """Nothing remembers that it was valid a moment ago."""
    headers = bearer(operated.ours.secrets[Role.READ_ONLY])
    assert await authenticator.viewer(headers) == operated.ours.read_only

    await operated.management.revoke_key(operated.ours.admin, operated.ours.read_only.key_id)

    assert "not valid" in await refusal(authenticator, headers)


async def test_agents_keys_get_nothing_here(operated: World, authenticator: Authenticator) -> None:
    """A key that sends traffic is told that an operator's is needed."""
    assert "operator's key" in await refusal(
        authenticator, bearer(operated.ours.secrets[Role.AGENT])
    )


async def test_a_mistyped_key_asks_nobody(
    operated: World, authenticator: Authenticator, pool: asyncpg.Pool
) -> None:
    """Only what could be a key is looked up: noise does not reach Postgres."""
    await pool.close()

    assert "not valid" in await refusal(authenticator, bearer(operated.platform_key[:-1]))
    with pytest.raises(DatabaseUnavailable):
        await authenticator.viewer(bearer(operated.platform_key))


async def test_a_live_operators_key_is_known_by_its_id(
    operated: World, authenticator: Authenticator
) -> None:
    """As by its secret; an agent's, a revoked and an unknown one are nobody's."""
    ours = operated.ours
    assert await authenticator.viewer_of_id(ours.admin.key_id) == ours.admin
    assert await authenticator.viewer_of_id(operated.platform.key_id) == operated.platform

    await operated.management.revoke_key(ours.admin, ours.read_only.key_id)

    for key_id in (ours.key_ids[Role.AGENT], ours.read_only.key_id, NOWHERE):
        assert await authenticator.viewer_of_id(key_id) is None

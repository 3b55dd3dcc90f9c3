"""Who asks: an operator's key in `Authorization: Bearer <key>`, looked up anew for every request.

A key that was revoked is refused with the next request: nothing is remembered here.
"""

from collections.abc import Mapping

from db.api_keys import Role, digest, well_formed
from db.repository import Repository
from db.rows import ApiKey
from graphql_api.errors import Unauthenticated
from graphql_api.model import Viewer

_MISSING = "send an operator's key: Authorization: Bearer <key>"
_AGENTS = "this is an agent's key, which sends traffic: an operator's key is needed here"
_INVALID = "this key is not valid: it is mistyped, unknown or revoked"


class Authenticator:
    """Tells the viewer by the key that a request carries. Everything raises DatabaseUnavailable."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def viewer(self, headers: Mapping[str, str]) -> Viewer:
        """Return who asks. `headers` finds names in any case. Raises as `viewer_of_key` does."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip()
        if scheme.lower() != "bearer" or not key:
            raise Unauthenticated(_MISSING)
        return await self.viewer_of_key(key)

    async def viewer_of_key(self, key: str) -> Viewer:
        """Return who holds that key.

        Raises Unauthenticated, in the same words for a key that was revoked and one that never was.
        """
        role = well_formed(key)
        if role is Role.AGENT:
            raise Unauthenticated(_AGENTS)
        found = await self._repository.operator_key(digest(key)) if role else None
        if found is None:
            raise Unauthenticated(_INVALID)
        return _viewer(found)

    async def viewer_of_id(self, key_id: str) -> Viewer | None:
        """Return who holds the key with that id; None where it is not live."""
        found = await self._repository.live_operator_key(key_id)
        return None if found is None else _viewer(found)


def _viewer(key: ApiKey) -> Viewer:
    return Viewer(key.id, key.name, Role(key.role), key.org_id)

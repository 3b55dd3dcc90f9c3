"""Who asks: an operator's key in `Authorization: Bearer <key>`, looked up anew for every request.

A key that was revoked is refused with the next request: nothing is remembered here.
"""

from collections.abc import Mapping

from db.api_keys import Role, digest, well_formed
from db.repository import Repository
from graphql_api.errors import Unauthenticated
from graphql_api.model import Viewer

_MISSING = "send an operator's key: Authorization: Bearer <key>"
_AGENTS = "this is an agent's key, which sends traffic: the management API takes an operator's key"
_INVALID = "this key is not valid: it is mistyped, unknown or revoked"


class Authenticator:
    """Tells the viewer by the key that a request carries."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def viewer(self, headers: Mapping[str, str]) -> Viewer:
        """Return who asks. `headers` finds names in any case.

        Raises Unauthenticated, in the same words for a key that was revoked and one that never
        was; DatabaseUnavailable.
        """
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip()
        if scheme.lower() != "bearer" or not key:
            raise Unauthenticated(_MISSING)
        role = well_formed(key)
        if role is Role.AGENT:
            raise Unauthenticated(_AGENTS)
        found = await self._repository.operator_key(digest(key)) if role else None
        if found is None:
            raise Unauthenticated(_INVALID)
        return Viewer(found.id, found.name, Role(found.role), found.org_id)

"""A check for schemathesis: GraphQL refuses by a code, and is never at fault.

Schemathesis itself knows only some codes of refusals, and takes NOT_FOUND, CONFLICT and FORBIDDEN
for faults of the server.
"""

from typing import Any

import schemathesis

REFUSALS = {"BAD_USER_INPUT", "CONFLICT", "FORBIDDEN", "NOT_FOUND"}


@schemathesis.check
def refused_by_code_or_answered(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """Each error has one of our codes for refusals, and the request's id."""
    del ctx, case
    assert response.status_code == 200
    body = response.json()
    assert body.get("data") is not None or body["errors"]
    for error in body.get("errors", ()):
        assert error["extensions"]["code"] in REFUSALS, error
        assert error["extensions"]["requestId"]

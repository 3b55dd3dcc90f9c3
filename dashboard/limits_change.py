"""Changing limits from a page: the API's rules and words, and what becomes of the change."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from sanic import HTTPResponse
from sanic.response import redirect

from dashboard import composing, form_body, forms
from dashboard.contexts import Form, Notice
from dashboard.page import Visit
from dashboard.patience import patiently
from dashboard.security import secured
from graphql_api.errors import BadInput, Conflict
from graphql_api.model import RateLimits

LATELY = timedelta(minutes=1)
"""So long after a change its notice is shown, should the page be loaded again."""
_NOTICES = {
    "now": Notice("Saved. In force now: every gateway obeys within a second."),
    "next-poll": Notice(
        "Saved, but Redis could not be told: in force with the gateways' next poll, "
        "which is within 30 s unless it was set otherwise.",
        is_problem=True,
    ),
}
_NOTHING = Notice("Nothing was changed: these limits are set already.")


@dataclass(frozen=True, slots=True)
class Target:
    """Whose limits are changed, and its page: with a list, at `page` of that."""

    organization_id: str
    agent_id: str | None
    url: str
    fields: tuple[str, ...]
    page: int = 1


Again = Callable[[Callable[[Form], Form], int], Awaitable[HTTPResponse]]
"""Shows the page again, with the form as the function makes it, and the status."""


async def change(visit: Visit, target: Target, again: Again) -> HTTPResponse:
    """Take the form. Changed: back to the page, with a notice; refused: the page again, and why.

    Raises NotFound, Forbidden and DatabaseUnavailable as the use case does.
    """
    typed = await form_body.read(visit.request, (forms.VERSION, *target.fields))
    expected = forms.version(typed)
    try:
        changed = await patiently(
            visit.management.update_rate_limits(
                visit.viewer,
                target.organization_id,
                target.agent_id,
                forms.change(typed),
                expected_version=expected,
                via="dashboard",
            )
        )
    except (BadInput, Conflict) as refused:
        status = 409 if isinstance(refused, Conflict) else 422
        error = refused  # the name of an except clause ends with it
        return await again(lambda form: forms.refused(form, typed, error), status)
    effect = "now" if changed.published else "next-poll"
    if changed.value.version == expected:
        effect = "nothing"
    query = {"changed": effect} | ({"page": str(target.page)} if target.page > 1 else {})
    return secured(redirect(f"{target.url}?{urlencode(query)}#limits", status=303))


async def back(visit: Visit, **_ids: str) -> HTTPResponse:
    """Who asks for the address that a form is sent to is led to the page that it is on."""
    url = visit.request.path.removesuffix("/limits")
    return secured(redirect(composing.paged(url, visit.page), status=303))


def notice(visit: Visit, limits: RateLimits) -> Notice | None:
    """What the redirect after a change tells, if there was one lately: addresses can be made up."""
    told = visit.request.args.get("changed", "")
    if told == "nothing":
        return _NOTHING
    if limits.updated_at is None or datetime.now(UTC) - limits.updated_at > LATELY:
        return None
    return _NOTICES.get(told)

"""What every route under /dashboard goes through: forms of other sites and failures end here."""

from collections.abc import Callable, Coroutine
from typing import Any

from sanic import HTTPResponse, Request

from dashboard import failures, security
from graphql_api import problems

Handler = Callable[..., Coroutine[Any, Any, HTTPResponse]]


def guarded(handle: Handler) -> Handler:
    """Whatever goes wrong is answered as a page, and every answer has a request id.

    What may change something is handled only if it comes from one of our own pages.
    """

    async def answered(request: Request, **ids: str) -> HTTPResponse:
        request_id = problems.new_request_id()
        try:
            security.require_same_origin(request)
            response = await handle(request, **ids)
        except Exception as error:  # noqa: BLE001 - logged there, and nothing leaks to the browser
            response = failures.answer(request, error, request_id)
        response.headers["X-Request-Id"] = request_id
        security.keep_https(request, response)
        return response

    return answered

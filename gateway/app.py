"""The composition root: settings in, a Sanic app out. Nothing happens at import."""

import asyncio
import math
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import structlog
from sanic import Request, Sanic
from sanic.config import Config
from sanic.exceptions import (
    ExpectationFailed,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RequestTimeout,
    SanicException,
    ServiceUnavailable,
)
from sanic.response import BaseHTTPResponse

from dashboard import failures, pages, sign_in
from dashboard.pace import Pace
from dashboard.parts import Parts
from dashboard.session import Sessions
from gateway import endpoints, http1, http1_head, operators_lines, responses
from gateway.http1_head import Malformed
from gateway.responses import Kind, OwnAnswer, Refusal, refused
from gateway.runtime import Runtime
from gateway.settings import Dialect, Settings
from graphql_api import problems, rest, view
from graphql_api.auth import Authenticator
from graphql_api.management import Management

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
LONGEST_HEADERS = 16_384
KEEP_ALIVE_S = 120
"""Longer than the 90 s of common routers, which reuse a connection until just before."""
OPERATORS_PATHS = ("/v1/", "/openapi.json")
DASHBOARD_PATHS = "/dashboard/"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Part = Literal["gateway", "management"]
IbexApp = Sanic[Config, SimpleNamespace]

log = structlog.get_logger("ibex.gateway")

# The most specific first.
_KINDS: tuple[tuple[type[SanicException], Kind, str], ...] = (
    (PayloadTooLarge, responses.TOO_LARGE, "The request body is too large."),
    (MethodNotAllowed, responses.NOT_ALLOWED, "This method is not offered here."),
    (RequestTimeout, responses.REQUEST_TIMEOUT, "The request took too long to arrive."),
    (ServiceUnavailable, responses.UNAVAILABLE, "No answer was ready in time."),
    (ExpectationFailed, responses.EXPECTATION, "No expectation but 100-continue can be met here."),
    (NotFound, responses.NOT_FOUND, "There is nothing here; traffic goes to /{upstream}/{path}."),
)


def create_app(
    settings: Settings, only: Part | None = None, workers: Path | None = None
) -> IbexApp:
    """Everything on one port, or one part. In the folder `workers` they tell their numbers."""
    app = Sanic("ibex", request_class=http1_head.AnyTarget, configure_logging=False)
    app.config.update(
        {
            "ACCESS_LOG": False,
            "AUTO_EXTEND": False,
            "MOTD": False,
            "GRACEFUL_SHUTDOWN_TIMEOUT": settings.shutdown_grace_s,
            "KEEP_ALIVE_TIMEOUT": KEEP_ALIVE_S,
            "REQUEST_MAX_HEADER_SIZE": LONGEST_HEADERS,
            "REQUEST_MAX_SIZE": settings.request_max_bytes,
            "REQUEST_TIMEOUT": settings.client_head_timeout_s,
            http1.CLIENT_IDLE: settings.client_idle_timeout_s,
            # Other silences end first, so that the client is told which it was.
            "RESPONSE_TIMEOUT": settings.upstream_connect_timeout_s
            + max(settings.upstream_idle_timeout_s, settings.client_idle_timeout_s)
            + settings.client_head_timeout_s,
        }
    )

    @app.before_server_start
    async def start(app: IbexApp) -> None:
        app.ctx.runtime = Runtime(settings, workers)
        await app.ctx.runtime.open()

    @app.before_server_stop
    async def drain(app: IbexApp) -> None:
        _ignore_signals()
        app.config.KEEP_ALIVE = False
        app.ctx.runtime.drain()

    @app.after_server_stop
    async def stop(app: IbexApp) -> None:
        await app.ctx.runtime.close()

    _register_state(app)
    if only != "gateway":
        view.register(app, _management, _authenticator)
        rest.register(app, _management, _authenticator)
        sign_in.register(app, _sessions, _pace)
        pages.register(app, _parts)
        operators_lines.register(app)
    if only != "management":
        _register_traffic(app, settings)
    app.error_handler.add(Exception, _ErrorAnswers(settings, has_dashboard=only != "gateway"))
    return app


def _register_state(app: IbexApp) -> None:
    """What is asked by those that run it."""
    app.add_route(endpoints.healthz, "/healthz")
    app.add_route(endpoints.readyz, "/readyz")
    app.add_route(endpoints.metrics, "/metrics")


def _register_traffic(app: IbexApp, settings: Settings) -> None:
    """The agents' routes. The last one answers what goes to no upstream."""
    app.add_route(endpoints.limits, "/limits")
    app.add_route(
        _proxy,  # type: ignore[arg-type]  # it answers with a response, if not an HTTPResponse
        "/<upstream>/<rest:path>",
        methods=METHODS,
        stream=True,
    )
    setattr(app.ctx, http1.HANDLER, _Traffic(app, settings))


def _ignore_signals() -> None:
    """Stopping takes its time once: a second signal would cut it short, with nothing settled.

    It is common: a terminal, a process manager or a platform tells a whole group of processes.
    The loop's handlers would go with the loop, a moment before the process does.
    """
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _management(request: Request) -> Management:
    return endpoints.runtime_of(request).management


def _authenticator(request: Request) -> Authenticator:
    return endpoints.runtime_of(request).authenticator


def _sessions(request: Request) -> Sessions:
    return endpoints.runtime_of(request).sessions


def _pace(request: Request) -> Pace:
    return endpoints.runtime_of(request).sign_in_pace


def _parts(request: Request) -> Parts:
    return Parts(_management(request), _sessions(request))


async def _proxy(request: Request, upstream: str, rest: str) -> OwnAnswer | None:
    """Forwarded as it came over the wire: what the router has decoded is not looked at."""
    del upstream, rest
    return await endpoints.runtime_of(request).proxy.handle(request)


class _Traffic:
    """The agents' way past the server's routing and middleware, of which they need nothing."""

    def __init__(self, app: IbexApp, settings: Settings) -> None:
        self._app = app
        self._names = frozenset(name.encode("ascii") for name in settings.upstreams)

    async def __call__(self, request: Request) -> None:
        """Answer one request, whoever sends it."""
        name, _, rest = request.raw_url[1:].partition(b"/")
        http = request.stream
        if name not in self._names or not rest or request.method not in METHODS:
            await self._app.handle_request(request)
            return
        assert isinstance(http, http1.StrictHttp)
        http.request_max_size = math.inf  # the proxy has its own bound
        try:
            answer = await self._app.ctx.runtime.proxy.handle(request)
            if answer is not None:
                await http.answer(answer, b"", end=True)
        except Exception as error:  # noqa: BLE001 - the server does so for its other routes
            await self._app.handle_exception(request, error, run_middleware=False)


class _ErrorAnswers:
    """What a client is told when a request ends in an exception: never a stack trace."""

    __name__ = "error_answers"

    def __init__(self, settings: Settings, *, has_dashboard: bool) -> None:
        self._settings = settings
        self._has_dashboard = has_dashboard

    def __call__(self, request: Request, error: Exception) -> BaseHTTPResponse:
        """A problem or a page for operators, for agents the shape of the upstream's family."""
        if isinstance(error, Refusal):
            return refused(error, self._dialect(request))
        if request.path.startswith(OPERATORS_PATHS):
            return problems.answer(error, problems.new_request_id())
        if self._has_dashboard and (request.path + "/").startswith(DASHBOARD_PATHS):
            return failures.answer(request, error, problems.new_request_id())
        return refused(_refusal(request, error), self._dialect(request))

    def _dialect(self, request: Request) -> Dialect:
        name = request.path[1:].partition("/")[0]
        upstream = self._settings.upstreams.get(name)
        return upstream.dialect if upstream else "openai"


def _refusal(request: Request, error: Exception) -> Refusal:
    if isinstance(error, PayloadTooLarge) and not request.head:
        return Refusal(
            responses.HEADERS_TOO_LARGE,
            f"The request's head is larger than the {LONGEST_HEADERS} bytes taken here.",
        )
    for of_type, kind, message in _KINDS:
        if isinstance(error, of_type):
            return Refusal(kind, message)
    if isinstance(error, Malformed):
        return Refusal(responses.BAD_REQUEST, f"This is not HTTP/1.1: {error}")
    if isinstance(error, SanicException) and error.status_code < 500:  # noqa: PLR2004 - a client's
        return Refusal(responses.BAD_REQUEST, "The request cannot be read as HTTP/1.1.")
    upstream = request.path[1:].partition("/")[0]  # the rest may hold what is not for a log
    log.error("internal error", exc_info=error, upstream=upstream)
    return Refusal(responses.INTERNAL, "Ibex failed to handle this request; the failure is logged.")

"""The hot path: who asks, what it may cost, whether it may, then forward, relay and settle.

Nothing here waits for anything but the limiter's one answer and the upstream. Whatever happens
after the admission (an answer, a failure, the client's leaving) ends in exactly one settling.
"""

import time

from sanic import Request

from gateway.body import Body
from gateway.caller import find_caller, forwarded_headers
from gateway.config import Config
from gateway.exchange import Exchange
from gateway.journal import Journal, Record
from gateway.metering import Prepared, UnreadableBody, meter_for
from gateway.responses import (
    ENCODED,
    SILENT,
    UNREACHABLE,
    UNREADABLE,
    OwnAnswer,
    Refusal,
    denied,
    refused,
)
from gateway.routing import Route, find_route
from gateway.settings import Settings
from gateway.upstream import UpstreamClient
from lua.decision import Limiter
from lua.recorder import Recorder


class Proxy:
    """Handles `/{upstream}/{path}` for every method. `open` holds what is under way."""

    def __init__(
        self,
        settings: Settings,
        config: Config,
        limiter: Limiter,
        recorder: Recorder,
        client: UpstreamClient,
        journal: Journal,
    ) -> None:
        self._settings = settings
        self._config = config
        self._limiter = limiter
        self._recorder = recorder
        self._client = client
        self._journal = journal
        self.open: dict[Exchange, Request] = {}

    def drain(self) -> None:
        """End each connection with the answer that is under way: nothing more is taken on it."""
        for request in self.open.values():
            if request.stream:
                request.stream.keep_alive = False  # type: ignore[attr-defined]  # HTTP/1.1

    async def handle(self, request: Request) -> OwnAnswer | None:
        """Answer one request; None where the answer was streamed. Raises Refusal."""
        route = find_route(request, self._settings.upstreams)
        record = Record(request, route)
        answer = None
        try:
            answer = await self._decide(request, route, record)
        finally:
            self._journal.end(record, answer)
        return answer

    async def _decide(self, request: Request, route: Route, record: Record) -> OwnAnswer | None:
        try:
            caller = record.caller = find_caller(request, self._config.snapshot)
            route.require_key()
            body = Body(request, self._settings.request_max_bytes)
            prepared = await self._prepare(request, route, body)
            needed, extra = (prepared.hard_tokens, prepared.soft_tokens) if prepared else (0, 0)
            asked = time.monotonic()
            decision = await self._limiter.admit(caller.subject, needed, extra)
            record.limiter_s = time.monotonic() - asked
            record.decision = decision
            if not decision.admitted:
                self._recorder.denied(decision)
                return denied(decision, needed, route.upstream.dialect)
            if decision.is_open:
                self._recorder.opened(decision)
            with Exchange(self._limiter, decision, prepared, record) as exchange:
                self.open[exchange] = request
                try:
                    await self._forward(request, route, exchange, prepared or body)
                finally:
                    del self.open[exchange]
        except Refusal as refusal:
            record.failed = refusal.kind in (UNREACHABLE, SILENT)
            return refused(refusal, route.upstream.dialect)
        return None

    async def _prepare(self, request: Request, route: Route, body: Body) -> Prepared | None:
        """Read a metered request; None for one that is passed on as it comes."""
        meter = meter_for(route.upstream.dialect, route.path, request.method)
        if meter is None:
            return None
        if request.headers.getone("content-encoding", "identity").lower() != "identity":
            raise Refusal(
                ENCODED,
                "This request has to be read here: send its body without Content-Encoding.",
                ("Accept-Encoding", "identity"),
            )
        try:
            return meter.prepare(
                await body.read(),
                self._settings.default_output_tokens,
                inject=route.upstream.stream_usage,
            )
        except UnreadableBody as error:
            raise Refusal(UNREADABLE, str(error)) from error

    async def _forward(
        self, request: Request, route: Route, exchange: Exchange, content: Prepared | Body
    ) -> None:
        """Send the request on, and relay what comes back."""
        prepared = content if isinstance(content, Prepared) else None
        headers = forwarded_headers(request, route.upstream, prepared)
        payload = content.body if isinstance(content, Prepared) else content.pieces()
        record = exchange.record
        record.forwarded = time.monotonic()
        try:
            answer = await self._client.send(
                route.upstream, request.method, route.target, headers, payload
            )
        except Refusal:
            if isinstance(content, Body) and content.refusal:
                raise content.refusal from None
            raise
        record.answered = time.monotonic()
        try:
            await exchange.relay(request, answer)
        finally:
            await answer.aclose()

"""One admitted request, from its forwarding to its settling."""

from typing import Self

import httpx
import structlog
from sanic import Request

from gateway.journal import Record
from gateway.metering import Observer, Prepared, Usage, observe
from gateway.redact import Redactor
from gateway.relay import Delivery, Fields, Relayed, own_lines
from gateway.responses import Refusal
from gateway.upstream import failures
from lua.decision import Decision, Limiter

log = structlog.get_logger("ibex.gateway")


class Exchange:
    """Settles once, whatever happens: an answer, a failure, the client's leaving, a shutdown."""

    __slots__ = ("_decision", "_limiter", "_observer", "_prepared", "_upstream", "record")

    def __init__(
        self, limiter: Limiter, decision: Decision, prepared: Prepared | None, record: Record
    ) -> None:
        self._limiter = limiter
        self._decision = decision
        self._prepared = prepared
        self._upstream = record.route.upstream
        self.record = record
        self._observer: Observer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        left = error is not None and not isinstance(error, Exception)
        self.settle(client_left=left)

    def settle(self, *, client_left: bool) -> None:
        """Count what was used, as far as it is known.

        A client that left before the answer began leaves its prompt with the provider: that is
        charged as an estimate. An upstream that failed before it answered charges nothing.
        """
        if self._observer is not None:
            usage = self._observer.tokens()
        else:
            prompt = self._prepared.prompt_tokens if self._prepared and client_left else 0
            usage = Usage(prompt, estimated=True)
        self.record.client_left = client_left
        self.record.usage = usage
        self._limiter.settle(self._decision.reservation, usage.tokens, is_estimate=usage.estimated)

    async def relay(self, request: Request, answer: httpx.Response) -> None:
        """Stream the upstream's answer to the client as it comes, and read its usage in passing.

        An upstream that breaks off is a Refusal (502, 504) as long as nothing was sent; after that
        the client's connection ends where the answer ended.
        """
        record = self.record
        record.status = answer.status_code
        fields = Fields.of(answer)
        observer = self._observe(request, answer.status_code, fields)
        redactor = Redactor(self._upstream.key)
        if redactor.has_to_look_into(answer.status_code, fields.content_encoding):
            with failures(self._upstream.name):
                answer = await redactor.looked_into(answer)
            fields = Fields.of(answer)
        record.request_id = fields.request_id(self._upstream.dialect)
        head = Relayed(
            answer.status_code,
            redactor.headers(fields.raw),
            own_lines(fields, self._decision, self._upstream.dialect, record.request_id),
            None if observer.edits else fields.length,
        )
        delivery = Delivery(request, head, redactor, has_events=fields.has_events)
        try:
            with failures(self._upstream.name):
                if delivery.is_live:  # the first event may be long in coming
                    await delivery.begin()
                async for chunk in answer.stream:  # type: ignore[union-attr]  # async by contract
                    record.bytes += len(chunk)
                    await delivery.send(observer.feed(chunk))
        except Refusal as refusal:
            if not delivery.begun:
                self._observer = None
                raise
            record.failed = True
            log.warning("upstream broke off", upstream=self._upstream.name, reason=str(refusal))
            await delivery.break_off(refusal, self._dialect)
            return
        await delivery.end(observer.finish())

    @property
    def _dialect(self) -> str:
        """The answer's: some upstreams offer both on their own paths."""
        return self._prepared.dialect if self._prepared else self._upstream.dialect

    def _observe(self, request: Request, status: int, fields: Fields) -> Observer:
        """A GET reports again what was counted when it was made: nothing is counted for it."""
        self._observer = observe(
            self._upstream.dialect,
            self._prepared,
            status,
            fields.content_type if request.method == "POST" else "",
            fields.content_encoding,
        )
        return self._observer

"""One connection to an upstream, and the exchange on it: HTTP/1.1 as RFC 9112 has it."""

import asyncio
import select
from collections.abc import AsyncIterable
from typing import NamedTuple, Protocol, cast

import httptools
import httpx

from gateway.upstream.answer import Answer
from gateway.upstream.answer_head import LONGEST_HEAD, is_chunked, is_framed
from gateway.upstream.framing import Framing
from gateway.upstream.headers import RawHeaders
from gateway.upstream.silence import Silence

_JOINED_UP_TO = 65_536
_CLOSED_OR_TALKING = select.POLLIN | getattr(select, "POLLRDHUP", 0)
_FIRST_FINAL = 200


class Owner(Protocol):
    """Who lends the connection."""

    def release(self, connection: "Connection") -> None:
        """It is free for the next exchange."""

    def lost(self, connection: "Connection") -> None:
        """It is closed."""


class Outgoing(NamedTuple):
    """A request. A body that is streamed has the length stated, or None: it is sent in chunks.

    `read_s` and `write_s` bound how long the upstream may be silent, or take nothing.
    """

    head: bytes
    body: bytes | AsyncIterable[bytes]
    length: int | None
    is_head_only: bool
    read_s: float | None
    write_s: float | None


class Connection(asyncio.Protocol):
    """Serves one exchange at a time and goes back to its owner when that is over.

    It is closed instead when anything leaves a doubt about where the next answer begins: an error,
    bytes that nobody asked for, a body that was not read or not sent whole.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: Owner, descriptor: int) -> None:
        self._loop = loop
        self._owner = owner
        self._unasked = select.poll()
        self._unasked.register(descriptor, _CLOSED_OR_TALKING)
        self._parser = httptools.HttpResponseParser(self)
        self._silence = Silence(loop, self._silent)
        self._answer: Answer | None = None
        self._fields: RawHeaders = []
        self.is_closed = False
        self._upload: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._barren = self._unsent = 0

    def is_usable(self) -> bool:
        """Whether nothing has come in since the last answer, not even the connection's end."""
        return not self.is_closed and not self._unasked.poll(0)

    async def exchange(self, outgoing: Outgoing) -> Answer:
        """Send a request; return when the answer's head is there. Raises httpx.TransportError.

        Whatever a streamed body raises is raised here too, or by the answer if that has begun.
        """
        answer = self._begin(outgoing)
        try:
            if isinstance(outgoing.body, bytes):
                self._send(outgoing.head, outgoing.body)
                self._silence.watch(outgoing.read_s)
            else:
                self._transport.write(outgoing.head)
                self._upload = self._loop.create_task(
                    self._stream(outgoing.body, Framing(outgoing.length), answer)
                )
            await answer.head()
        except BaseException:
            self.close()
            raise
        return answer

    def close(self, error: Exception | None = None) -> None:
        """End the connection now. An answer under way ends in this error."""
        if self.is_closed:
            return
        self.is_closed = True
        self._silence.stop()
        self._transport.abort()
        if self._upload is not None:
            self._upload.cancel()
        answer, self._answer = self._answer, None
        if answer is not None and not answer.ended:
            answer.error = error or httpx.ReadError("The connection was closed on this side.")
            answer.news()
        self._owner.lost(self)

    def hold_back(self) -> None:
        """Read nothing for now. Meanwhile the upstream is not silent: it is not listened to."""
        if not self.is_closed:
            self._transport.pause_reading()
            self._silence.watch(None)

    def go_on(self) -> None:
        """Read again."""
        if not self.is_closed:
            self._transport.resume_reading()
            if self._is_sent:
                self._silence.watch(self._read_s)

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self.close()
            return
        self._silence.heard = self._loop.time()
        self._barren += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._is_spoilt = True
            if not answer.ended:
                self.close(httpx.RemoteProtocolError(f"No HTTP/1.1: {error.__context__ or error}"))
                return
        if answer.ended:
            self._finish()
        elif self._barren > LONGEST_HEAD:
            self.close(httpx.RemoteProtocolError(f"No body in {LONGEST_HEAD} bytes."))
        answer.news()

    def eof_received(self) -> None:
        self._ended_by_peer(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended_by_peer(error)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    # What the parser tells.

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.ended:
            self._is_spoilt = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are dropped: RFC 9110 section 6.5.1
            self._fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        answer = self._answer
        if answer is None or answer.ended:
            return
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL:
            self._is_interim = True
            self._fields = []
            return
        if is_chunked(self._fields, self._barren) and self._parser.get_http_version() == "1.0":
            self._is_spoilt = True  # RFC 9112 section 6.1: such an answer is its connection's last
        self._barren = 0
        self._is_in_head = False
        self._is_kept_alive = self._parser.should_keep_alive()
        answer.status = status
        answer.headers = self._fields
        answer.ended = self._is_head_only

    def on_body(self, piece: bytes) -> None:
        self._barren = 0
        if self._answer is None or self._answer.ended:
            self._is_spoilt = True
        else:
            self._answer.add(piece)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
        elif self._answer is not None:
            self._answer.ended = True

    def _begin(self, outgoing: Outgoing) -> Answer:
        self._is_head_only = outgoing.is_head_only
        self._read_s = outgoing.read_s
        self._write_s = outgoing.write_s
        self._fields = []
        self._is_in_head = True
        self._is_interim = self._is_spoilt = self._is_kept_alive = False
        self._is_sent = isinstance(outgoing.body, bytes)
        self._barren = 0
        self._upload = None
        self._unsent = 0
        self._answer = Answer(self._loop, self)
        return self._answer

    def _send(self, head: bytes, body: bytes) -> None:
        if len(body) <= _JOINED_UP_TO:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        self._unsent = self._transport.get_write_buffer_size()

    async def _stream(self, pieces: AsyncIterable[bytes], framing: Framing, answer: Answer) -> None:
        """Beside the answer: that may come before the body's end, and end the exchange."""
        try:
            async for piece in pieces:
                self._transport.writelines(framing.framed(piece))
                if self._drained is not None:
                    self._unsent = self._transport.get_write_buffer_size()
                    self._silence.watch(self._write_s)
                    await self._drained
                    self._silence.watch(None)
            self._transport.write(framing.end())
        except asyncio.CancelledError:
            self.close()
            raise
        except Exception as error:  # noqa: BLE001 - raised where the answer is awaited
            self.close(error)
            return
        self._is_sent = True
        if not answer.is_held_back:
            self._silence.watch(self._read_s)

    def _finish(self) -> None:
        """The answer is whole: free for the next exchange, if nothing is left of this one."""
        self._answer = None
        if (
            not (self._is_kept_alive and self._is_sent)
            or self._is_spoilt
            or self._transport.get_write_buffer_size()
        ):
            self.close()
            return
        self._silence.watch(None)
        if self._is_head_only:  # the parser waits for the body that the head announces
            self._parser = httptools.HttpResponseParser(self)
        self._owner.release(self)

    def _ended_by_peer(self, error: Exception | None) -> None:
        answer = self._answer
        if answer is None or self.is_closed:
            self.close()
        elif error is not None:
            failed = httpx.ReadError("The connection broke.")
            failed.__cause__ = error
            self.close(failed)
        elif not answer.status or is_framed(answer.headers):
            self.close(httpx.RemoteProtocolError("The connection was closed before the end."))
        else:
            answer.ended = True
            answer.news()
            self.close()

    def _silent(self) -> None:
        """Bytes that still leave are a sign of life, too."""
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent = unsent
            self._silence.watch(self._write_s if unsent else self._read_s)
        elif unsent:
            self.close(httpx.WriteTimeout("The upstream takes nothing."))
        else:
            self.close(httpx.ReadTimeout("The upstream is silent."))

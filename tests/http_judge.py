"""Another reader of HTTP/1.1 (h11), as the judge of what we send: one message, and nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

import h11

LONGEST_HEAD = 1 << 17


class Judged(NamedTuple):
    """One message as h11 reads it. Names are in lower case."""

    start: h11.Request | h11.Response
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for found, value in self.start.headers if found == name]


def one_request(raw: bytes) -> Judged:
    """The request in these bytes; a second one, or any byte more, fails."""
    server = h11.Connection(h11.SERVER, LONGEST_HEAD)
    return _one_message(server, raw, [])


def one_answer(raw: bytes, method: str = "GET", *, ended: bool = False) -> Judged:
    """The answer in these bytes to a request of that method; `ended`: the connection is, too."""
    client = h11.Connection(h11.CLIENT, LONGEST_HEAD)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    return _one_message(client, raw, [b""] if ended else [])


def _one_message(reader: h11.Connection, raw: bytes, more: Sequence[bytes]) -> Judged:
    start: h11.Request | h11.Response | None = None
    body = bytearray()
    for data in (raw, *more):
        reader.receive_data(data)
    while True:
        event = reader.next_event()
        if isinstance(event, h11.Request | h11.Response):
            start = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert start is not None
            assert not event.headers, "no trailers are passed on"
            assert reader.trailing_data[0] == b"", "there is more than one message"
            return Judged(start, bytes(body))
        else:
            assert isinstance(event, h11.InformationalResponse), f"not a whole message: {event}"

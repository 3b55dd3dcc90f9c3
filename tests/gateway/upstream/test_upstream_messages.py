"""Requests and responses as transports see them: httpx's, for whoever asks them as such."""

import httpx

from gateway.upstream.messages import InMemory, LightRequest, LightResponse, RawFields

FIELDS = [
    (b"Content-Type", b"text/plain"),
    (b"Set-Cookie", b"a=1"),
    (b"set-cookie", b"b=2"),
    (b"X-Odd", b"\xff"),
]


def test_fields_are_kept_byte_for_byte() -> None:
    """Case, order and repetition stay; nothing is parsed for that."""
    fields = RawFields(FIELDS)
    assert fields.raw is FIELDS
    assert "_list" not in vars(fields)


def test_fields_can_be_asked_for_by_name() -> None:
    """They answer as httpx's own do."""
    fields, theirs = RawFields(FIELDS), httpx.Headers(FIELDS)
    assert fields == theirs
    assert fields.multi_items() == theirs.multi_items()
    assert fields["content-type"] == "text/plain"
    assert fields.get_list("SET-COOKIE") == ["a=1", "b=2"]
    assert "x-none" not in fields


def test_a_request_is_one_of_httpx() -> None:
    """A transport that knows nothing of ours finds what it needs."""
    url = httpx.URL("https://provider.test/v1")
    request = LightRequest("POST", url, FIELDS, InMemory(b"body"), {"target": b"/v1/x?"})
    assert isinstance(request, httpx.Request)
    assert (request.method, request.url, request.read()) == ("POST", url, b"body")
    assert request.extensions["target"] == b"/v1/x?"


async def test_closing_a_response_closes_its_stream() -> None:
    """The connection behind it is given back, or closed."""
    closed = []

    class Stream(httpx.AsyncByteStream):
        async def aclose(self) -> None:
            closed.append(self)

    stream = Stream()
    response = LightResponse(200, FIELDS, stream)
    assert (response.status_code, response.headers.raw, response.is_closed) == (200, FIELDS, False)
    await response.aclose()
    assert response.is_closed
    assert closed == [stream]

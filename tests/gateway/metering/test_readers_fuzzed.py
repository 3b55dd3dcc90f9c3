"""Whatever bytes an upstream sends: they pass, nothing raises, and the count stays within reason.

`IBEX_FUZZ_EXAMPLES` makes more of it than a test run does.
"""

import json
import os
from typing import Any

from answers import JSON, PROMPT, SSE, cut, pass_through, prepared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.metering import Observer, observe
from gateway.metering.figures import LARGEST_REPORTED

EXAMPLES = int(os.environ.get("IBEX_FUZZ_EXAMPLES", "250"))
fuzz = settings(
    deadline=None,  # the machine may be busy
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

DIALECTS = [("openai", "/v1/chat/completions"), ("openai", "/v1/responses")]
DIALECTS += [("openai", "/v1/embeddings"), ("anthropic", "/v1/messages")]
FIELDS = [
    "prompt_tokens",
    "completion_tokens",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation",
    "iterations",
]
MEMBERS = ["usage", "choices", "response", "message", "delta", "x_groq", "type", "content", "text"]
odd_figures = (
    st.integers(-(2**70), 2**70)
    | st.integers(0, 1_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([None, True, "7", "", 1e300, 2**63, -1, 0, 10**9, 10**9 + 1])
)


def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from([*FIELDS, *MEMBERS]) | st.text(max_size=3)
    return st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5)


values = st.recursive(odd_figures | st.text(max_size=5), deeper, max_leaves=12)
usages = st.dictionaries(st.sampled_from(FIELDS), odd_figures | values, max_size=5)
answers = st.dictionaries(st.sampled_from(MEMBERS), usages | values, max_size=4)
pieces = st.sampled_from(
    [
        *(b"data: ", b"data:", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b": x", b"event: y"),
        *(b'"usage"', b'"usage":', b"null", b"{", b"}", b"[", b"]", b",", b'"', b":", b"\\"),
        *(b'"delta"', b"[DONE]", b"\xef\xbb\xbf", b"\xff", b"\x00", "\U0001f642".encode()),
        *(b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}', b'{"delta":"a"}'),
    ]
)
documents = answers.map(lambda answer: json.dumps(answer).encode())
events = documents.map(lambda document: b"data: " + document + b"\n\n")
streams = st.lists(events | pieces | st.binary(max_size=6), max_size=12).map(b"".join)
cuts = st.lists(st.integers(0, 2_000), max_size=12)
dialects = st.sampled_from(DIALECTS)
content_types = st.sampled_from(
    [JSON, SSE, "", ";", "text/html", "a/b+json", "TEXT/EVENT-STREAM;x"]
)
names = st.sampled_from(
    ["gzip", "GZIP", "br", "zstd", "deflate", "identity", "compress", "", "\xff"]
)
codings = st.lists(names, max_size=4).map(", ".join)


def observer_of(dialect: tuple[str, str], content_type: str, *, inject: bool = False) -> Observer:
    name, path = dialect
    return observe(name, prepared(path, name, inject=inject), 200, content_type, "")


def within_reason(observer: Observer, size: int) -> bool:
    usage = observer.tokens()
    # A figure is bounded, a list of samples has at most one for every few bytes.
    return 0 <= usage.tokens <= PROMPT + 3 * size + LARGEST_REPORTED * (4 + size)


@fuzz
@given(stream=streams, at=cuts, dialect=dialects)
def test_any_stream_passes_whole_and_counts_alike_however_it_is_cut(
    stream: bytes, at: list[int], dialect: tuple[str, str]
) -> None:
    """Byte for byte, and the sum does not depend on the cuts."""
    whole, pieced = observer_of(dialect, SSE), observer_of(dialect, SSE)

    assert pass_through(whole, [stream]) == stream
    assert pass_through(pieced, cut(stream, at)) == stream
    assert pieced.tokens() == whole.tokens()
    assert within_reason(whole, len(stream))


@fuzz
@given(stream=streams, at=cuts)
def test_an_injected_stream_loses_nothing_but_what_was_asked_for(
    stream: bytes, at: list[int]
) -> None:
    """However it is cut, the same bytes are left, all of them the upstream's and in its order."""
    whole = observer_of(DIALECTS[0], SSE, inject=True)
    pieced = observer_of(DIALECTS[0], SSE, inject=True)

    left = pass_through(whole, [stream])
    assert pass_through(pieced, cut(stream, at)) == left
    assert pieced.tokens() == whole.tokens()
    rest = iter(stream)
    assert all(byte in rest for byte in left)
    if b'"usage"' not in stream:
        assert left == stream


@fuzz
@given(document=documents | streams, at=cuts, dialect=dialects, is_whole=st.booleans())
def test_any_document_passes_whole_and_counts_within_reason(
    document: bytes, at: list[int], dialect: tuple[str, str], is_whole: bool
) -> None:
    """Whether it is JSON or not, and whether its end was seen or not."""
    observer = observer_of(dialect, JSON)
    passed = b"".join(observer.feed(chunk) for chunk in cut(document, at))
    if is_whole:
        passed += observer.finish()

    assert passed == document
    assert within_reason(observer, len(document))
    assert observer.tokens() == observer.tokens()


@fuzz
@given(
    body=documents | streams | st.binary(max_size=50),
    at=cuts,
    dialect=dialects,
    kind=st.tuples(st.integers(200, 599), content_types, codings),
)
def test_an_answer_of_any_kind_passes_whole(
    body: bytes, at: list[int], dialect: tuple[str, str], kind: tuple[int, str, str]
) -> None:
    """Whatever its status and its fields say, and whether they are true or not."""
    name, path = dialect
    for request in (prepared(path, name), None):
        observer = observe(name, request, *kind)

        assert pass_through(observer, cut(body, at)) == body
        assert within_reason(observer, len(body))


@fuzz
@given(stream=streams, at=st.integers(0, 500), dialect=dialects)
def test_a_stream_may_end_anywhere(stream: bytes, at: int, dialect: tuple[str, str]) -> None:
    """A client that leaves is charged for what it saw, never for less than nothing."""
    observer = observer_of(dialect, SSE)
    assert observer.feed(stream[:at]) == stream[:at]

    assert within_reason(observer, at)

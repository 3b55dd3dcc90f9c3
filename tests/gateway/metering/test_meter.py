"""What a request is taken to cost, and what is sent in its place."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.metering import Meter, Prepared, UnreadableBody, meter_for
from gateway.metering.meter import _Request

CHAT = "/v1/chat/completions"
DEFAULT = 1_000
HUGE = 2**31


def the_meter(path: str = CHAT, dialect: str = "openai") -> Meter:
    meter = meter_for(dialect, path, "POST")
    assert meter is not None
    return meter


def prepare(body: dict[str, Any], path: str = CHAT, dialect: str = "openai") -> Prepared:
    return the_meter(path, dialect).prepare(json.dumps(body).encode(), DEFAULT)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"NaN",
        b'{"temperature":NaN}',
        b'{"messages":NaN}',
        b'{"a":1}x',
        b'{"messages":"\xff"}',
        b'{"unknown":"\xff"}',
        b"\xff\xfe",
        b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"messages":' + b'{"a":' * 100_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_not_a_json_object_is_refused(body: bytes) -> None:
    """Whatever is wrong with a body, the client is told in a sentence."""
    with pytest.raises(UnreadableBody, match=r"^The request body is .+"):
        the_meter().prepare(body, DEFAULT)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = [field.name for field in msgspec.structs.fields(_Request)]


@settings(deadline=None)  # the machine may be busy
@given(
    body=st.dictionaries(st.sampled_from(NAMES) | st.text(), json_values),
    path=st.sampled_from([CHAT, "/v1/completions", "/v1/responses", "/v1/embeddings"]),
)
def test_any_json_object_can_be_prepared(body: dict[str, Any], path: str) -> None:
    """No object, however odd its members, raises or gives a figure out of bounds."""
    prepared = the_meter(path).prepare(json.dumps(body, ensure_ascii=False).encode(), DEFAULT)

    assert prepared.prompt_tokens >= 1
    assert prepared.hard_tokens >= prepared.prompt_tokens
    assert 0 <= prepared.soft_tokens <= HUGE


@pytest.mark.parametrize(
    ("path", "dialect", "field"),
    [
        (CHAT, "openai", "max_completion_tokens"),
        (CHAT, "openai", "max_tokens"),
        ("/v1/completions", "openai", "max_tokens"),
        ("/v1/responses", "openai", "max_output_tokens"),
        ("/v1/messages", "anthropic", "max_tokens"),
    ],
)
def test_a_stated_maximum_is_held_and_the_default_is_not(
    path: str, dialect: str, field: str
) -> None:
    """Each endpoint's own member bounds its output."""
    prepared = prepare({"stream": False, field: 70}, path, dialect)

    assert (prepared.hard_tokens - prepared.prompt_tokens, prepared.soft_tokens) == (70, 0)


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "70", [70], 2**31 + 1, 10**30])
def test_a_maximum_that_is_no_count_is_as_good_as_none(value: Any) -> None:
    """What a provider would refuse is not believed: the default output is held."""
    prepared = prepare({"max_tokens": value})

    assert prepared.hard_tokens == prepared.prompt_tokens
    assert prepared.soft_tokens == DEFAULT


def test_a_maximum_of_zero_is_stated() -> None:
    """A request for no output at all holds none."""
    prepared = prepare({"prompt": "x", "max_tokens": 0, "echo": True}, "/v1/completions")

    assert (prepared.hard_tokens, prepared.soft_tokens) == (prepared.prompt_tokens, 0)


def test_of_two_maximums_the_larger_is_held() -> None:
    """An upstream may know only one of chat's two names, so neither may be passed."""
    prepared = prepare({"max_tokens": 90, "max_completion_tokens": 70})

    assert prepared.hard_tokens == prepared.prompt_tokens + 90


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ({"n": 3}, 3),
        ({"n": 2, "best_of": 5}, 5),
        ({"n": 0}, 1),
        ({"n": True}, 1),
        ({"n": "3"}, 1),
        ({"prompt": ["a", "b"]}, 2),
        ({"prompt": ["a", "b"], "n": 3}, 6),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": []}, 1),
    ],
)
def test_every_output_that_is_asked_for_is_held(body: dict[str, Any], outputs: int) -> None:
    """The bound is for one output; choices and prompts multiply it, stated or not."""
    stated = prepare({"max_tokens": 70, **body}, "/v1/completions")
    unstated = prepare(body, "/v1/completions")

    assert stated.hard_tokens - stated.prompt_tokens == 70 * outputs
    assert unstated.soft_tokens == DEFAULT * outputs


def test_an_absurd_product_is_bounded() -> None:
    """What is held stays an integer that a double can carry."""
    prepared = prepare({"n": HUGE, "max_tokens": HUGE})

    assert prepared.hard_tokens == prepared.prompt_tokens + HUGE


def test_embeddings_have_no_output() -> None:
    """Nothing but the prompt is held where nothing is generated."""
    prepared = prepare({"input": "hello", "max_tokens": 5}, "/v1/embeddings")

    assert (prepared.hard_tokens, prepared.soft_tokens) == (prepared.prompt_tokens, 0)
    assert not prepared.generates


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
@pytest.mark.parametrize(
    ("sent", "upstream"),
    [
        (b'{"stream":true}', b'{"stream":true,"stream_options":{"include_usage":true}}'),
        (
            b'{"stream":true,"stream_options":null}',
            b'{"stream":true,"stream_options":{"include_usage":true}}',
        ),
        (
            b'{"stream_options":{"include_usage":false},"stream":true}',
            b'{"stream_options":{"include_usage":true},"stream":true}',
        ),
        (
            b'{"stream":true,"stream_options":{"include_usage":null,"other": 1.0}}',
            b'{"stream":true,"stream_options":{"include_usage":true,"other":1.0}}',
        ),
        (
            b'{"x":1,"stream":false,"stream":true}',
            b'{"x":1,"stream":true,"stream_options":{"include_usage":true}}',
        ),
    ],
)
def test_a_stream_that_would_report_no_usage_is_asked_to(
    path: str, sent: bytes, upstream: bytes
) -> None:
    """Only the one option changes; other options stay."""
    prepared = the_meter(path).prepare(sent, DEFAULT)

    assert prepared.injected
    assert prepared.body == upstream


def test_injection_keeps_the_bytes_of_every_other_value() -> None:
    """Spaces, escapes, number formats and unknown members inside values are the client's."""
    values = {
        "temperature": b"1.0",
        "seed": b"123456789012345678901234567890",
        "p": b"1E-2",
        "messages": b'[ {"role" : "user", "content":"\\u00e9\xf0\x9f\x99\x82\\/"} ]',
    }
    body = b'{ %s, "stream" : true}' % b" , ".join(
        b'"%s": %s' % (name.encode(), value) for name, value in values.items()
    )

    sent = the_meter().prepare(body, DEFAULT).body

    members = msgspec.json.decode(sent, type=dict[str, msgspec.Raw])
    assert {name: bytes(members[name]) for name in values} == values
    assert list(members) == [*values, "stream", "stream_options"]


@pytest.mark.parametrize(
    ("path", "dialect", "body"),
    [
        (CHAT, "openai", b'{"stream": true, "stream_options": {"include_usage": true}}'),
        (CHAT, "openai", b'{"stream": true, "stream_options": {"include_usage": 1}}'),
        (CHAT, "openai", b'{"stream": true, "stream_options": {"include_usage": 0}}'),
        (CHAT, "openai", b'{"stream": true, "stream_options": "on"}'),
        (CHAT, "openai", b'{"stream": true, "stream_options": []}'),
        (CHAT, "openai", b'{"stream": false}'),
        (CHAT, "openai", b'{"stream": "true"}'),
        (CHAT, "openai", b'{"stream": 1}'),
        (CHAT, "openai", b'{"stream": true, "stream": false}'),
        (CHAT, "openai", b"{}"),
        ("/v1/responses", "openai", b'{"stream": true}'),
        ("/v1/embeddings", "openai", b'{"stream": true}'),
        ("/v1/messages", "anthropic", b'{"stream": true}'),
    ],
)
def test_a_body_that_needs_no_injection_is_sent_as_it_is(
    path: str, dialect: str, body: bytes
) -> None:
    """Where usage comes anyway, or the provider would refuse the option, nothing is touched."""
    prepared = the_meter(path, dialect).prepare(body, DEFAULT)

    assert prepared.body is body
    assert not prepared.injected


def test_an_upstream_can_be_spared_the_injection() -> None:
    """The switch for an upstream that refuses the option."""
    body = b'{"stream":true}'

    prepared = the_meter().prepare(body, DEFAULT, inject=False)

    assert prepared.body is body
    assert not prepared.injected

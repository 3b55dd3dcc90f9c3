"""Which routes are read before they are sent, whatever their spelling."""

import pytest

from gateway.metering import meter_for


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("openai", "/v1/chat/completions"),
        ("openai", "/chat/completions"),
        ("openai", "v1/chat/completions"),
        ("openai", "/v1/completions"),
        ("openai", "/v1/responses"),
        ("openai", "/v1/embeddings"),
        ("openai", "/v1/messages"),
        ("openai", "/openai/deployments/x/chat/completions"),
        ("anthropic", "/v1/messages"),
        ("anthropic", "/v1/chat/completions"),
    ],
)
def test_routes_with_a_readable_body_are_metered(dialect: str, path: str) -> None:
    """Each endpoint that spends tokens has a meter, also the other family's on an upstream."""
    assert meter_for(dialect, path, "POST") is not None


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/",
        "/v1//chat//completions",
        "/v1/chat/./completions",
        "/v1/Chat/Completions",
        "/v1/chat/completion%73",
        "/v1/chat%2Fcompletions",
        "/v1/chat/completions;v=1",
        "/v1/chat;v=1/completions;",
        "/v1/chat/completions%20",
        "/v1/chat/completions%0A",
        "/v1/chat/completions%00",
        "/v1/chat/completions%00x",
        "/v1/chat/completions%3Fx=/",
    ],
)
def test_another_spelling_of_a_route_has_the_same_meter(path: str) -> None:
    """A spelling that an upstream may accept does not get around metering."""
    assert meter_for("openai", path, "POST") is meter_for("openai", "/v1/chat/completions", "POST")


@pytest.mark.parametrize(
    ("dialect", "path", "method"),
    [
        ("openai", "/v1/chat/completions", "GET"),
        ("openai", "/v1/models", "GET"),
        ("openai", "/v1/files", "POST"),
        ("openai", "/v1/audio/transcriptions", "POST"),
        ("openai", "/v1/responses/resp_1/cancel", "POST"),
        ("openai", "/v1/threads/thread_1/messages", "POST"),
        ("openai", "/v1/notcompletions", "POST"),
        ("openai", "", "POST"),
        ("anthropic", "/v1/messages/count_tokens", "POST"),
        ("anthropic", "/v1/messages/batches", "POST"),
        ("anthropic", "/v1/responses", "POST"),
    ],
)
def test_other_routes_have_no_meter(dialect: str, path: str, method: str) -> None:
    """A route that spends nothing, or whose body is not ours to read, is left alone."""
    assert meter_for(dialect, path, method) is None

"""Usage in OpenAI's dialect: chat, legacy completions, responses, embeddings, images.

Cached and reasoning tokens are parts of the prompt and output figures and are never added to
them. https://platform.openai.com/docs/api-reference
"""

from typing import Any

import msgspec

from gateway.metering.figures import Reported, keep_latest
from gateway.metering.sse import data_of

_FIELDS = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens")
_USAGE = b'"usage"'
_MOST_SPELLINGS = 8  # of "usage" in one event; more is not an answer we know, and left alone


class _Answer(msgspec.Struct):
    """The members of a body or an event that tell usage; raw where a provider may differ."""

    usage: Any = msgspec.UNSET
    choices: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()


_answer = msgspec.json.Decoder(_Answer)


class OpenAIReader:
    """Reads the usage of one answer. `strip` takes out of a stream what we asked for."""

    least_output = 0

    def __init__(self, *, strip: bool = False) -> None:
        self._figures: dict[str, int] = {}
        self._strip = strip

    def document(self, body: bytes | bytearray) -> None:
        """Read a whole JSON answer; one that is not an object reports nothing."""
        answer = _decode(body)
        if answer is not None:
            keep_latest(self._figures, answer.usage, _FIELDS)

    def event(self, event: bytes) -> bytes:
        """Read one event that mentions usage, and return what the client may see of it."""
        answer = _decode(data_of(event))
        if answer is None:
            return event
        usage = answer.usage
        if usage is msgspec.UNSET:
            usage = _usage_of_response(answer.response)
        keep_latest(self._figures, usage, _FIELDS)
        if not self._strip:
            return event
        if answer.usage is None:
            return _without_null_usage(event)
        is_extra = isinstance(answer.usage, dict) and _is_empty_list(answer.choices)
        return b"" if is_extra else event

    def reported(self) -> Reported:
        """Return the prompt and output figures; a lone total stands for what is missing."""
        figures = self._figures
        prompt = figures.get("prompt_tokens", figures.get("input_tokens"))
        output = figures.get("completion_tokens", figures.get("output_tokens"))
        total = figures.get("total_tokens")
        if total is None or (prompt is not None and output is not None):
            return Reported(prompt, output)
        if prompt is None:
            return Reported(max(total - (output or 0), 0), output or 0)
        return Reported(prompt, max(total - prompt, 0))


def _decode(data: bytes | bytearray | msgspec.Raw) -> _Answer | None:
    try:
        return _answer.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _usage_of_response(response: msgspec.Raw) -> Any:
    """Return the usage inside the `response` member of a Responses event."""
    answer = _decode(response)
    return answer.usage if answer else None


def _is_empty_list(raw: msgspec.Raw) -> bool:
    return bytes(raw).translate(None, b" \t\r\n") == b"[]"


def _without_null_usage(event: bytes) -> bytes:
    """Take the top-level `"usage": null` out of an event, with its comma and nothing else."""
    at = event.find(_USAGE)
    for _ in range(_MOST_SPELLINGS):
        if at < 0:
            break
        cut = _without_null_member(event, at)
        # A usage deeper inside is another's: then the one on top is still there.
        if cut is not None and (rest := _decode(data_of(cut))) and rest.usage is msgspec.UNSET:
            return cut
        at = event.find(_USAGE, at + len(_USAGE))
    return event


def _without_null_member(event: bytes, at: int) -> bytes | None:
    """Cut the member whose name is at `at`, if its value is null."""
    colon, null = (event[at + len(_USAGE) :].lstrip(b" \t"), b"null")
    if not colon.startswith(b":"):
        return None
    value = colon[1:].lstrip(b" \t")
    if not value.startswith(null):
        return None
    before, behind = event[:at].rstrip(b" \t"), value[len(null) :]
    if before.endswith(b","):
        return before[:-1] + behind
    following = behind.lstrip(b" \t").removeprefix(b",").lstrip(b" \t")
    return event[:at] + following

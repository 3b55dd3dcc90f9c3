"""Usage in OpenAI's dialect: chat, legacy completions, responses, embeddings, audio, images.

Cached, reasoning and audio tokens are parts of the prompt and output figures and are never added
to them. https://platform.openai.com/docs/api-reference

Providers that speak this dialect differ in where `usage` stands (on top; in `response`: the
Responses API; in `x_groq`: Groq; in each of `choices`: Moonshot) and in what it adds up to: some
leave reasoning tokens out of the output but not out of the total (xAI; Gemini's endpoint), so a
total that is larger than its parts counts. https://docs.x.ai/docs/guides/reasoning,
https://ai.google.dev/gemini-api/docs/openai, https://console.groq.com/docs/api-reference
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from gateway.metering.figures import Reported, keep_latest
from gateway.metering.sse import data_of

_PROMPT_FIELDS = ("prompt_tokens", "input_tokens")
_OUTPUT_FIELDS = ("completion_tokens", "output_tokens")
_TOTAL_FIELDS = ("total_tokens",)
_USAGE = b'"usage"'
_MOST_SPELLINGS = 8  # of "usage" in one event; more is not an answer we know, and left alone


_ABSENT = msgspec.Raw()


class _Answer(msgspec.Struct):
    """The members of a body or an event that tell usage; raw where a provider may differ."""

    usage: Any = msgspec.UNSET
    choices: msgspec.Raw = _ABSENT
    response: msgspec.Raw = _ABSENT
    x_groq: msgspec.Raw = _ABSENT


_answer = msgspec.json.Decoder(_Answer)
_choices = msgspec.json.Decoder(list[_Answer])


class OpenAIReader:
    """Reads the usage of one answer. `strip` takes out of a stream what we asked for."""

    least_output = 0

    def __init__(self, *, strip: bool = False) -> None:
        self._prompt: dict[str, int] = {}
        self._output: dict[str, int] = {}
        self._total: dict[str, int] = {}
        self._strip = strip
        self.reports = 0

    def document(self, body: bytes | bytearray) -> None:
        """Read a whole JSON answer; one that is not an object reports nothing."""
        answer = _decode(body)
        if answer is not None:
            self._keep(answer)

    def event(self, event: bytes) -> bytes:
        """Read one event that mentions usage, and return what the client may see of it."""
        answer = _decode(data_of(event))
        if answer is None:
            return event
        if answer.usage is not None or event.count(_USAGE) > 1:  # nearly every chunk has one null
            self._keep(answer)
        if not self._strip:
            return event
        if answer.usage is None:
            return _without_null_usage(event)
        is_extra = isinstance(answer.usage, dict) and _is_empty_list(answer.choices)
        return b"" if is_extra else event

    def reported(self) -> Reported:
        """Return the prompt and output figures.

        A lone total stands for what is missing, and a larger one than their sum is believed.
        """
        prompt = max(self._prompt.values(), default=None)
        output = max(self._output.values(), default=None)
        for total in self._total.values():
            if prompt is None:
                prompt = max(total - (output or 0), 0)
            output = max(total - prompt, output or 0)
        return Reported(prompt, output)

    def _keep(self, answer: _Answer) -> None:
        for usage in _usages(answer):
            keep_latest(self._prompt, usage, _PROMPT_FIELDS)
            output = keep_latest(self._output, usage, _OUTPUT_FIELDS)
            total = keep_latest(self._total, usage, _TOTAL_FIELDS)
            self.reports += output or total


def _decode(data: bytes | bytearray | msgspec.Raw) -> _Answer | None:
    try:
        return _answer.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None


def _usages(answer: _Answer) -> Sequence[Any]:
    """Find what is called usage, in the first place that has an object of that name."""
    if isinstance(answer.usage, dict):
        return (answer.usage,)
    for raw in (answer.response, answer.x_groq):
        inner = None if raw is _ABSENT else _decode(raw)
        if inner is not None and isinstance(inner.usage, dict):
            return (inner.usage,)
    if _USAGE in bytes(answer.choices):
        with suppress(msgspec.DecodeError, RecursionError):
            return [choice.usage for choice in _choices.decode(answer.choices)]
    return ()


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

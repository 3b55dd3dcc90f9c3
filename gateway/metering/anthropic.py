"""Usage in Anthropic's dialect: messages.

The input figure leaves out what was written to or read from the cache, so the three are added.
A stream tells the input at its start and running output totals in `message_delta`; either may
repeat the other's figures. https://docs.anthropic.com/en/api/messages

Where the API samples several times for one answer (compaction, an advisor), the figures on top
leave samples out; `iterations` lists all, and their sum is what is billed.
https://docs.anthropic.com/en/docs/build-with-claude/compaction
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.metering.figures import Reported, figure, keep_latest
from gateway.metering.sse import data_of

_PROMPT_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_OUTPUT_FIELDS = ("output_tokens",)
_ALL_FIELDS = (*_PROMPT_FIELDS, *_OUTPUT_FIELDS)
_CACHE_WRITES = "cache_creation_input_tokens"


class _Answer(msgspec.Struct):
    """The members of a body or an event that tell usage; raw where a provider may differ."""

    usage: Any = None
    message: msgspec.Raw = msgspec.Raw()


_answer = msgspec.json.Decoder(_Answer)


class AnthropicReader:
    """Reads the usage of one answer."""

    def __init__(self) -> None:
        self._prompt: dict[str, int] = {}
        self._output: dict[str, int] = {}
        self._started: dict[str, int] = {}
        self.reports = 0

    @property
    def least_output(self) -> int:
        """The output figure at the start of a stream: a placeholder, but not less than that."""
        return self._started.get("output_tokens", 0)

    def document(self, body: bytes | bytearray) -> None:
        """Read a whole JSON answer; one that is not an object reports nothing."""
        answer = _decode(body)
        if answer is not None:
            self._keep(answer.usage, self._output)

    def event(self, event: bytes) -> bytes:
        """Read one event that mentions usage; returns it as it is."""
        answer = _decode(data_of(event))
        if answer is not None:
            self.reports += self._keep(answer.usage, self._output)
            if started := _decode(answer.message):
                self._keep(started.usage, self._started)
        return event

    def reported(self) -> Reported:
        """Return the figures; an output is reported once a later event than the first has it."""
        return Reported(
            sum(self._prompt.values()) if self._prompt else None,
            self._output.get("output_tokens"),
        )

    def _keep(self, usage: Any, output: dict[str, int]) -> bool:
        usage = _summed(usage)
        keep_latest(self._prompt, usage, _PROMPT_FIELDS)
        return keep_latest(output, usage, _OUTPUT_FIELDS)


def _summed(usage: Any) -> Any:
    """Raise the figures on top to what `iterations` and the split of cache writes add up to."""
    if not isinstance(usage, dict):
        return usage
    parts = usage.get("iterations")
    samples = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    split = usage.get("cache_creation")
    sums = {name: _sum(part.get(name) for part in samples) for name in _ALL_FIELDS}
    if isinstance(split, dict):
        sums[_CACHE_WRITES] = max(sums[_CACHE_WRITES], _sum(split.values()))
    return usage | {n: max(figure(usage.get(n)) or 0, total) for n, total in sums.items() if total}


def _sum(values: Iterable[Any]) -> int:
    return sum(figure(value) or 0 for value in values)


def _decode(data: bytes | bytearray | msgspec.Raw) -> _Answer | None:
    try:
        return _answer.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None

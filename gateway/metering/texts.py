"""The text that a model has written, inside an answer or an event: what an estimate counts.

Only looked for where an upstream has not reported the output. Names, seals and encoded media are
no text; a model's calls of tools and its reasoning are.
"""

from typing import Any

import msgspec

_NO_TEXT = frozenset(
    {
        "annotations",
        "call_id",
        "citation",
        "citations",
        "data",
        "encrypted_content",
        "id",
        "logprobs",
        "result",
        "role",
        "signature",
        "status",
        "type",
    },
)
_ANSWER_MEMBERS = ("choices", "output", "content", "completion")


def answer_text(body: bytes | bytearray) -> str | None:
    """Return the text in a whole JSON answer; None if that has no member where text belongs."""
    answer = _decode(body)
    parts = [answer[name] for name in _ANSWER_MEMBERS if name in answer]
    return _text(parts) if parts else None


def delta_text(data: bytes) -> str | None:
    """Return the text in the data of an event; None if that has no delta of a known form."""
    event = _decode(data)
    if str(event.get("type", "")).endswith("audio.delta"):
        return ""
    parts = [event["delta"]] if "delta" in event else []
    choices = event.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict):
                parts.extend(choice[name] for name in ("delta", "text") if name in choice)
    return _text(parts) if parts else None


def _decode(data: bytes | bytearray) -> dict[str, Any]:
    """An object, empty if it is none."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(parts: list[Any]) -> str:
    """All strings inside, in any order, joined: an answer's text may be cut anywhere."""
    found: list[str] = []
    pending = parts
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(v for name, v in value.items() if name not in _NO_TEXT)
    return "".join(found)

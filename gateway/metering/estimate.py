"""What a prompt will cost, estimated without a tokenizer.

Text counts as `tokens.text_tokens` says. Media are billed by their size in pixels, pages or
seconds, which is not visible here: each part counts a flat figure, however long its encoding is.
"""

from collections.abc import Iterable
from typing import Any

from gateway.metering.tokens import text_tokens

MEDIA_TOKENS = 1_000
MESSAGE_TOKENS = 3
_LONGEST_MEDIA_TYPE = 128
_MEDIA_PARTS = frozenset(
    {
        "audio",
        "base64",
        "computer_screenshot",
        "image",
        "image_generation_call",
        "image_url",
        "input_audio",
        "input_image",
    },
)
# Names and seals of the API, which no model reads as text.
_UNREAD_MEMBERS = frozenset({"type", "id", "encrypted_content", "signature"})


def prompt_tokens(texts: Iterable[Any], verbatim: bytes = b"") -> int:
    """Tokens in the decoded JSON values `texts`, and in JSON that is counted as text; at least 1.

    Media parts and data URLs count flat, arrays of token ids by their number, and each message a
    few tokens for its frame.
    """
    pending = [text for text in texts if text is not None]
    tokens = sum([_frames(text) for text in pending])
    found: list[str] = []
    # A stack instead of recursion: the depth is the client's choice.
    while pending:
        value = pending.pop()
        kind = type(value)  # decoded JSON: of no subclass
        if kind is str:
            if _is_data_url(value):
                tokens += MEDIA_TOKENS
            else:
                found.append(value)
        elif kind is list:
            if is_token_ids(value):
                tokens += len(value)
            else:
                pending.extend(value)
        elif kind is dict:
            if _is_media(value):
                tokens += MEDIA_TOKENS
            else:
                pending += [v for name, v in value.items() if name not in _UNREAD_MEMBERS]
    return max(1, tokens + text_tokens(" ".join(found).encode()) + text_tokens(verbatim))


def is_token_ids(value: list[Any]) -> bool:
    """Whether a prompt or input is one text, given as token ids."""
    return bool(value) and type(value[0]) is int


def _frames(text: Any) -> int:
    is_messages = isinstance(text, list) and text and isinstance(text[0], dict)
    return MESSAGE_TOKENS * len(text) if is_messages else 0


def _is_data_url(text: str) -> bool:
    return text.startswith("data:") and ";base64," in text[:_LONGEST_MEDIA_TYPE]


def _is_media(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and kind in _MEDIA_PARTS

"""What a prompt will cost, estimated from its bytes without a tokenizer.

A token is taken for four bytes of text, which is close for English and errs to the high side for
most code and JSON. Media are billed by their size in pixels or seconds, which is not visible
here: each part counts a flat figure, however long its encoding is.
"""

from collections.abc import Iterable
from typing import Any

MEDIA_TOKENS = 1_000
MESSAGE_TOKENS = 4
_BYTES_PER_TOKEN = 4
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


def text_tokens(length: int) -> int:
    """Tokens in `length` bytes of text, rounded up."""
    return -(-length // _BYTES_PER_TOKEN)


def prompt_tokens(texts: Iterable[Any], verbatim_bytes: int = 0) -> int:
    """Tokens in the decoded JSON values `texts`, and in JSON counted by its length; at least 1.

    Strings count by their UTF-8 length, media parts and data URLs flat, arrays of token ids by
    their number, and each message a few tokens for its frame.
    """
    pending = list(texts)
    tokens = sum(_frames(text) for text in pending)
    size = verbatim_bytes
    # A stack instead of recursion: the depth is the client's choice.
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            if _is_data_url(value):
                tokens += MEDIA_TOKENS
            else:
                size += len(value) if value.isascii() else len(value.encode())
        elif isinstance(value, list):
            if is_token_ids(value):
                tokens += len(value)
            else:
                pending.extend(value)
        elif isinstance(value, dict):
            if _is_media(value):
                tokens += MEDIA_TOKENS
            else:
                pending.extend(value.values())
    return max(1, tokens + text_tokens(size))


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

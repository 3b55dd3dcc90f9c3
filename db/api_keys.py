"""The API keys that callers hold: `ibex_<agt|adm|ro|plt>_<secret><checksum>`.

The secret is 30 base62 digits (178 bits). The checksum is the CRC-32 of everything before it, as
6 base62 digits: a mistyped key is refused without a look-up. Only the SHA-256 of a key is stored;
a plain hash is enough, because nobody can search 178 random bits.
"""

import hashlib
import re
import secrets
import string
import zlib
from enum import StrEnum

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_DIGITS = 30
_CHECKSUM_DIGITS = 6
_SHOWN_DIGITS = 4
_ANY_KEY = re.compile(rb"ibex_(?:agt|adm|ro|plt)_[0-9A-Za-z]{8}")
_KEY = re.compile(rf"ibex_(agt|adm|ro|plt)_[0-9A-Za-z]{{{_SECRET_DIGITS + _CHECKSUM_DIGITS}}}")


class Role(StrEnum):
    """What a key is for: sending traffic, running one organization, or running the platform."""

    AGENT = "agent"
    ADMIN = "admin"
    READ_ONLY = "read_only"
    PLATFORM = "platform"


_CODES = {Role.AGENT: "agt", Role.ADMIN: "adm", Role.READ_ONLY: "ro", Role.PLATFORM: "plt"}
_ROLES = {code: role for role, code in _CODES.items()}


def generate(role: Role) -> str:
    """Return a new key. It is the caller's only chance to show it."""
    secret = "".join(secrets.choice(_BASE62) for _ in range(_SECRET_DIGITS))
    body = f"ibex_{_CODES[role]}_{secret}"
    return body + _checksum(body)


def well_formed(key: str) -> Role | None:
    """Return the role of a key that could exist, None for anything else. Never raises."""
    match = _KEY.fullmatch(key)
    if match is None or _checksum(key[:-_CHECKSUM_DIGITS]) != key[-_CHECKSUM_DIGITS:]:
        return None
    return _ROLES[match[1]]


def mentions_key(text: bytes) -> bool:
    """Whether a text holds a key, or a good part of one: such a text goes to nobody else."""
    return b"ibex_" in text and _ANY_KEY.search(text) is not None


def digest(key: str) -> bytes:
    """Return the 32 bytes by which a key is stored and looked up: its SHA-256."""
    return hashlib.sha256(key.encode()).digest()


def prefix(key: str) -> str:
    """Return the part by which people recognize a key, such as `ibex_agt_Ab3d`."""
    return key[: key.rindex("_") + 1 + _SHOWN_DIGITS]


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECKSUM_DIGITS):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits

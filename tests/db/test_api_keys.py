import hashlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.api_keys import Role, digest, generate, prefix, well_formed

ALPHABET = string.ascii_letters + string.digits


@pytest.mark.parametrize(
    ("role", "code"),
    [
        (Role.AGENT, "agt"),
        (Role.ADMIN, "adm"),
        (Role.READ_ONLY, "ro"),
        (Role.PLATFORM, "plt"),
    ],
)
def test_generated_key_tells_its_role(role: Role, code: str) -> None:
    """A key carries the code of its role, and is recognized as one of that role."""
    key = generate(role)

    assert key.startswith(f"ibex_{code}_")
    assert well_formed(key) is role


def test_secret_has_at_least_128_bits() -> None:
    """What is left of a key without prefix and checksum cannot be guessed."""
    secret = generate(Role.AGENT).removeprefix("ibex_agt_")[:-6]

    assert len(ALPHABET) ** len(secret) >= 2**128
    assert set(secret) <= set(ALPHABET)


def test_no_two_keys_are_alike() -> None:
    """Keys differ from one another in the part that is shown least."""
    assert len({generate(Role.AGENT)[-36:] for _ in range(1000)}) == 1000


def test_every_single_character_change_is_refused() -> None:
    """One mistyped character anywhere in a key is noticed without a look-up."""
    key = generate(Role.READ_ONLY)
    accepted = [
        mistyped
        for position in range(len(key))
        for character in string.printable
        if (mistyped := key[:position] + character + key[position + 1 :]) != key
        and well_formed(mistyped)
    ]

    assert accepted == []


@given(
    role=st.sampled_from(Role),
    position=st.integers(min_value=0, max_value=43),
    character=st.characters(codec=None),
)
def test_any_replaced_character_is_refused(role: Role, position: int, character: str) -> None:
    """The same for any character of Unicode, and for keys of every role."""
    key = generate(role)
    mistyped = key[:position] + character + key[position + 1 :]

    assert (well_formed(mistyped) is None) == (mistyped != key)


@given(position=st.integers(min_value=9, max_value=43))
def test_swapped_neighbors_are_refused(position: int) -> None:
    """Two characters in the wrong order are noticed."""
    key = generate(Role.AGENT)
    swapped = key[:position] + key[position + 1] + key[position] + key[position + 2 :]

    assert (well_formed(swapped) is None) == (swapped != key)


@given(st.text(st.characters(codec=None)))
def test_junk_is_refused_without_an_error(junk: str) -> None:
    """Whatever a caller sends as a key, it is refused and raises nothing."""
    assert well_formed(junk) is None


@pytest.mark.parametrize(
    "junk", ["", "ibex_agt_", "ibex_agt_" + "a" * 10_000_000, "ibex_agt_" + "é" * 36, "\x00"]
)
def test_odd_keys_are_refused(junk: str) -> None:
    """Empty, cut off, huge and non-ASCII keys are refused."""
    assert well_formed(junk) is None


@pytest.mark.parametrize("surplus", [" ", "\n", "\x00", "a"])
def test_surplus_characters_are_refused(surplus: str) -> None:
    """A key with something before or behind it is not that key."""
    key = generate(Role.ADMIN)

    assert well_formed(key + surplus) is None
    assert well_formed(surplus + key) is None


def test_key_of_another_role_is_not_made_by_its_prefix() -> None:
    """The checksum covers the role: an agent's key cannot be relabelled."""
    key = generate(Role.AGENT)

    assert well_formed(key.replace("_agt_", "_adm_")) is None


def test_checksum_is_the_one_that_was_published() -> None:
    """Keys that are in use stay valid: format and checksum do not change between versions."""
    assert well_formed("ibex_agt_NxTB67LZnES731TPtxFUmGVMU9wWJ03WcpE2") is Role.AGENT


def test_digest_is_sha256_and_prefix_shows_four_digits() -> None:
    """What is stored of a key: its SHA-256, and no more of the secret than is needed."""
    key = generate(Role.READ_ONLY)

    assert digest(key) == hashlib.sha256(key.encode()).digest()
    assert prefix(key) == key[: len("ibex_ro_") + 4]

"""The bodies' documented forms against the checks of the use cases."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphql_api import inputs
from graphql_api.errors import BadInput
from graphql_api.rest_bodies import LABEL_PATTERN, NAME_PATTERN, UUID_PATTERN

EDGES = [chr(code) for code in range(0x2030) if not chr(code).isprintable()] + ["\ufeff", "\u3000"]
TEXTS = st.text(st.sampled_from(EDGES) | st.characters(exclude_categories=["Cs"]))


def accepts(check: object, value: str) -> bool:
    """Whether a check of the use cases lets the value pass."""
    assert callable(check)
    try:
        check(value)
    except BadInput:
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "check"), [(NAME_PATTERN, inputs.name), (LABEL_PATTERN, inputs.label)]
)
@given(value=TEXTS)
@example(value="x" * 200)
@example(value="x" * 201)
@example(value="\n" + "x" * 200 + "\x1f")
@example(value=" ")
@example(value="")
def test_documented_names_are_those_that_are_accepted(
    pattern: str, check: object, value: str
) -> None:
    """A generated client that validates by the document refuses what the server would."""
    assert bool(re.search(pattern, value)) == accepts(check, value)


def test_documented_names_agree_on_every_single_character() -> None:
    """Wherever spaces and controls are: at the ends or within."""
    characters = [chr(code) for code in (*range(0x3100), 0xFEFF, 0x1D173, 0xE0001)]
    values = [form.format(each) for each in characters for form in ("{}", "{}x", "x{}", "x{}x")]

    told_apart = [
        value
        for value in values
        if bool(re.search(NAME_PATTERN, value)) != accepts(inputs.name, value)
    ]

    assert told_apart == []


@given(st.from_regex(UUID_PATTERN, fullmatch=True))
def test_documented_ids_are_accepted(value: str) -> None:
    """In either case."""
    assert accepts(lambda text: inputs.uuid("id", text), value)

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from db.api_keys import Role
from db.limits import MAX_LIMIT, OverrideChange
from graphql_api import inputs
from graphql_api.errors import BadInput

ID = "8db83585-fd25-4a63-89fa-957ac5e7fb23"


@pytest.mark.parametrize("value", [ID, ID.upper()])
def test_uuid_is_accepted_in_either_case(value: str) -> None:
    """The id of anything is its lowercase form, however it was typed."""
    assert inputs.uuid("org_id", value) == ID


@pytest.mark.parametrize(
    "value",
    [
        *("", "nope", ID[:-1], ID + "0", f"{{{ID}}}", ID.replace("-", ""), f"urn:uuid:{ID}"),
        *(f" {ID}", f"{ID}\n", "\x00", "\N{FULLWIDTH DIGIT EIGHT}" + ID[1:]),
        *(None, 7, uuid4(), ID.encode()),
    ],
)
def test_what_is_no_uuid_names_its_field(value: Any) -> None:
    """Anything else is refused before it reaches the database, with an example of what is right."""
    with pytest.raises(BadInput, match="must be a UUID, such as") as error:
        inputs.uuid("agent_id", value)

    assert error.value.field == "agent_id"


@pytest.mark.parametrize(
    ("value", "accepted"),
    [("Acme", "Acme"), ("  Acme \n", "Acme"), ("x" * 200, "x" * 200), ("👩‍🚀 é", "👩‍🚀 é")],
)
def test_names_are_accepted_without_space_around(value: str, accepted: str) -> None:
    """A name may be in any script, up to 200 characters."""
    assert inputs.name(value) == accepted


@pytest.mark.parametrize(
    ("value", "mend"),
    [
        ("", "must not be empty"),
        (" \t\n", "must not be empty"),
        ("x" * 201, "at most 200 characters"),
        ("a\x00b", "control characters"),
        ("a\nb", "one line"),
        ("a\x1b[31mb", "control characters"),
        ("a\x9bb", "control characters"),
        ("a\u2028b", "one line"),
        ("a\ud800b", "control characters"),
        (None, "must be a string"),
        (7, "must be a string"),
    ],
)
def test_bad_names_say_what_is_wrong(value: Any, mend: str) -> None:
    """Empty and endless names, and what a terminal or Postgres would choke on, are refused."""
    with pytest.raises(BadInput, match=mend) as error:
        inputs.name(value)

    assert error.value.field == "name"


@given(st.text())
def test_accepted_names_fit_the_database(value: str) -> None:
    """Whatever is accepted can be stored: 1 to 200 characters, encodable and without NUL."""
    try:
        accepted = inputs.name(value)
    except BadInput:
        return

    assert 1 <= len(accepted) <= 200
    assert b"\x00" not in accepted.encode()


def test_label_may_be_empty() -> None:
    """The name of a key is optional."""
    assert inputs.label("") == ""


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READ_ONLY, "admin", "read_only"])
def test_operator_roles_are_accepted(role: Any) -> None:
    """Both roles of operators, as such or by name."""
    assert inputs.operator_role(role) is Role(role)


@pytest.mark.parametrize("role", [Role.AGENT, Role.PLATFORM, "owner", "ADMIN", "", None, 1])
def test_other_roles_are_refused(role: Any) -> None:
    """An agent's or the platform's key is not to be had by way of an operator's."""
    with pytest.raises(BadInput, match="role: must be admin or read_only"):
        inputs.operator_role(role)


@pytest.mark.parametrize("value", [UNSET, None, 0, 1, MAX_LIMIT])
def test_limits_in_range_are_accepted(value: Any) -> None:
    """Absent, null, zero and the largest limit all pass as what they are."""
    change = OverrideChange(requests_per_minute=value, tokens_per_month=value)

    assert inputs.override_change(None, change) == change


@pytest.mark.parametrize("field", ["requests_per_minute", "tokens_per_month"])
@pytest.mark.parametrize(
    "value",
    [-1, MAX_LIMIT + 1, 2**64, True, False, 1.0, 1.5, float("nan"), "10", "", "inherit", [], {}],
)
def test_bad_limits_name_the_field_and_the_mend(field: str, value: Any) -> None:
    """Negative, too large, fractions, strings and booleans are refused, never converted."""
    with pytest.raises(BadInput, match="a whole number from 0 to 9007199254740991") as error:
        inputs.override_change(None, OverrideChange(**{field: value}))

    assert error.value.field == field


@pytest.mark.parametrize("value", [None, 0, 5])
def test_an_agent_has_no_token_ceiling(value: int | None) -> None:
    """Tokens are limited per organization: for an agent they can be neither set nor cleared."""
    with pytest.raises(BadInput, match="for an organization, not for an agent") as error:
        inputs.override_change(ID, OverrideChange(tokens_per_month=value))

    assert error.value.field == "tokens_per_month"

"""BigInt: GraphQL's own Int ends at 2^31 - 1, which a limit or a month's tokens can pass."""

from typing import NewType

import strawberry

BigInt = NewType("BigInt", int)


def _parse(value: object) -> int:
    """Accept what REST accepts: a whole number, also as 60.0, since JSON has one kind of number.
    What range is meant is the use case's to say.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError("must be a whole number, not in quotes")


SCALARS: dict[object, object] = {
    BigInt: strawberry.scalar(
        name="BigInt",
        description="A whole number. What is answered is at most 2^53 - 1, exact in JavaScript.",
        parse_value=_parse,
    )
}

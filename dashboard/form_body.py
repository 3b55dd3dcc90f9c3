"""What a form has sent. Read strictly: a field that is given twice would be two opinions."""

from collections.abc import Collection
from urllib.parse import parse_qsl

from sanic import Request
from sanic.exceptions import PayloadTooLarge

from graphql_api.errors import BadInput

TYPE = "application/x-www-form-urlencoded"
LONGEST_BYTES = 16_384
MOST_FIELDS = 20


async def read(request: Request, names: Collection[str]) -> dict[str, str]:
    """Return these fields; what was not sent is empty, what is not asked for is left aside.

    The route must be a streaming one. Raises BadInput, and PayloadTooLarge before it is all read.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != TYPE:
        raise BadInput("body", f"must be a form, as {TYPE}")
    content = bytearray()
    while request.stream and (piece := await request.stream.read()):  # type: ignore[attr-defined]
        content += piece
        if len(content) > LONGEST_BYTES:
            raise PayloadTooLarge(f"The form is larger than {LONGEST_BYTES} bytes.")
    return _fields(bytes(content), names)


def _fields(content: bytes, names: Collection[str]) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            content.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise BadInput("body", f"must be at most {MOST_FIELDS} fields in UTF-8") from None
    fields = dict.fromkeys(names, "")
    seen = set()
    for name, value in pairs:
        if name in fields:
            if name in seen:
                raise BadInput(name, "must be given once")
            seen.add(name)
            fields[name] = value
    return fields

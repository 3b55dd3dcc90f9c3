"""The call that a reader can make where there are no numbers yet, with this server's address."""

import re

from sanic import Request

from dashboard.security import is_https

_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
_CALL = """\
curl -s {origin}/openai/v1/chat/completions \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
  -d '{{"model": "gpt-4o-mini", "messages": [{{"role": "user", "content": "Hello"}}]}}'"""


def of(request: Request) -> str:
    """A line for a shell. The address is the one by which this page was asked for."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        host = "HOST"
    return _CALL.format(origin=f"{'https' if is_https(request) else 'http'}://{host}")

"""The files that pages load, from our own origin, kept by browsers for ever.

A file's address holds a part of the hash of its content, so that a new content is a new address:
`/dashboard/static/<hash>/<file>`. Each is compressed when it is first asked for, once per worker
and encoding, in a thread; the compressed bytes are kept (1.3 MB for the charts' library as br).
"""

import asyncio
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import NotFound

from dashboard.encoding import Encoding, accepted, encoded

ROUTE = "/dashboard/static"
HERE = Path(__file__).parent / "static"
QUALITY = 6
"""Compresses the 4.8 MB of the charts' library in a tenth of a second."""
_HASH_LENGTH = 16
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


class StaticFiles:
    """Files by name. Their addresses are made when this is: it reads each once."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths
        self._hashes = {name: _hash(path.read_bytes()) for name, path in paths.items()}
        self._encoded: dict[tuple[str, Encoding], asyncio.Task[bytes]] = {}

    def url(self, name: str) -> str:
        """The address of a file. Raises KeyError for one that there is not."""
        return f"{ROUTE}/{self._hashes[name]}/{name}"

    async def answer(self, digest: str, name: str, accept_encoding: str) -> HTTPResponse:
        """The file as the browser takes it. Raises NotFound, also for another content's hash."""
        if self._hashes.get(name) != digest:
            raise NotFound
        encoding = accepted(accept_encoding)
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable",
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
        }
        if encoding != "identity":
            headers["Content-Encoding"] = encoding
        content = await self._content(name, encoding)
        return HTTPResponse(content, headers=headers, content_type=_TYPES[self._paths[name].suffix])

    async def _content(self, name: str, encoding: Encoding) -> bytes:
        """Shared by all who ask meanwhile, and by those who ask later; not the bare file."""
        if encoding == "identity":
            return await asyncio.to_thread(self._paths[name].read_bytes)
        key = (name, encoding)
        if key not in self._encoded:
            self._encoded[key] = asyncio.create_task(
                asyncio.to_thread(_compressed, self._paths[name], encoding)
            )
        return await asyncio.shield(self._encoded[key])


@cache
def files() -> StaticFiles:
    """What the pages load: our own files, and the charts' library from its package."""
    own = {path.name: path for path in HERE.iterdir() if path.suffix in _TYPES}
    return StaticFiles({**own, "plotly.min.js": _plotly()})


def register(app: Sanic[Any, Any]) -> None:
    """Mount them. No key is needed: they hold nothing but what is published with Ibex."""

    async def static(request: Request, digest: str, name: str) -> HTTPResponse:
        header = request.headers.get("accept-encoding", "")
        return await files().answer(digest, name, header)

    app.add_route(
        static,
        f"{ROUTE}/<digest>/<name>",
        methods=("GET", "HEAD"),
        name="dashboard_static",
        stream=True,
    )


def _plotly() -> Path:
    """Where the package keeps the browser's part. The package itself is not loaded."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH_LENGTH]


def _compressed(path: Path, encoding: Encoding) -> bytes:
    return encoded(path.read_bytes(), encoding, quality=QUALITY)

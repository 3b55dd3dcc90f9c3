"""Sanic apps of the tests' own, each served on a port in the process of the test."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from sanic import Sanic
from sanic.config import Config

App = Sanic[Config, Any]
_NUMBERS = count()


def new_app() -> App:
    """An app without routes. Two of one name there cannot be."""
    app: App = Sanic(f"test-{next(_NUMBERS)}", configure_logging=False)
    app.config.update({"ACCESS_LOG": False, "AUTO_EXTEND": False, "MOTD": False, "TOUCHUP": False})
    return app


@asynccontextmanager
async def serving(app: App, **how: Any) -> AsyncIterator[str]:
    """The address at which it answers meanwhile. `how`: what else the server is made with."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server: Any = await app.create_server(sock=listening, return_asyncio_server=True, **how)
        await server.startup()
        await server.before_start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            await server.before_stop()
            server.close()
            await server.wait_closed()
            await server.after_stop()

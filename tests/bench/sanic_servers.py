"""What Ibex is compared with, on the same HTTP server.

Arguments: `constant` or `httpx`, the port to listen on, the upstream's URL. `constant` answers
every request by itself: no gateway on Sanic can cost less. `httpx` is the plainest proxy that
works, without keys, limits or usage: a body read, sent on by `httpx.AsyncClient`, the answer read
and returned. Runs until it is ended.
"""

import sys
from typing import Any

import httpx
from chat import ANSWER
from sanic import HTTPResponse, Request, Sanic
from sanic.response import raw

JSON = "application/json"


def main(kind: str, port: str, upstream: str) -> None:
    """See the module."""
    app = Sanic("benchmark", configure_logging=False)
    app.config.update({"ACCESS_LOG": False, "AUTO_EXTEND": False, "MOTD": False})

    @app.before_server_start
    async def start(app: Sanic[Any, Any]) -> None:
        app.ctx.client = httpx.AsyncClient(base_url=upstream)

    async def constant(_request: Request, path: str) -> HTTPResponse:
        del path
        return raw(ANSWER, content_type=JSON)

    async def proxy(request: Request, path: str) -> HTTPResponse:
        answer = await request.app.ctx.client.request(
            request.method,
            f"/{path}",
            content=request.body,
            headers={
                "authorization": request.headers.get("authorization", ""),
                "content-type": JSON,
            },
        )
        return raw(answer.content, status=answer.status_code, content_type=JSON)

    handler = {"constant": constant, "httpx": proxy}[kind]
    app.add_route(handler, "/<path:path>", methods=["GET", "POST"])
    app.run("127.0.0.1", int(port), single_process=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Who is measured. The configuration of each is in `participants/`: limits on, connections kept
alive, logs off. They share one Redis server and one upstream."""

import sys
from collections.abc import Callable

import msgspec
from chat import Form, Kind
from stand import CONFIGURATIONS, DIRECT, Server, Stand
from tools import LITELLM, TRAEFIK, node_script, python_program

from gateway.embedded import HOST, free_port

DIRECT_ROW, IBEX, IBEX_2 = "direct", "ibex", "ibex_2"
TRAEFIK_ROW, NGINX_ROW = "traefik", "nginx_lua"
PORTKEY_ROW, LITELLM_ROW = "portkey", "litellm"
IBEX_FORM = Form({Kind.CHAT: "/openai", Kind.EVENTS: f"/{Kind.EVENTS}", Kind.HELD: f"/{Kind.HELD}"})


class Participant(msgspec.Struct, frozen=True):
    """Somebody who forwards requests."""

    name: str
    title: str
    start: Callable[[Stand], Server]
    """Raises MissingError where it is not to be had."""
    limits: bool = True
    """Whether it can deny."""
    is_slow: bool = False
    """Of whom nobody expects hundreds of requests per second, nor 1,000 streams."""
    is_quick: bool = False
    """Whether the quick form measures it."""


def ibex(stand: Stand, workers: int, database_url: str, name: str) -> Server:
    """An Ibex of this working tree on a database that is provisioned."""
    port = free_port()
    text = stand.configuration("ibex.env", database_url=database_url, upstream=stand.upstream_url)
    lines = [line for line in text.read_text().splitlines() if not line.startswith("#")]
    env = dict(line.split("=", 1) for line in lines)
    serve = [sys.executable, "-m", "gateway", "serve", "--workers", str(workers)]
    command = [*serve, "--host", HOST, "--port", str(port)]
    return stand.serve(name, command, port, env=env, form=IBEX_FORM, ready="/readyz")


def _direct(stand: Stand) -> Server:
    return stand.upstream


def _nginx(stand: Stand) -> Server:
    return stand.nginx("nginx_lua.conf", upstream_port=stand.upstream.port)


def _traefik(stand: Stand) -> Server:
    port = free_port()
    stand.configuration("traefik_routes.yml", upstream=stand.upstream_url)
    path = stand.configuration("traefik.yml", port=port)
    command = [python_program("traefik", TRAEFIK), f"--configfile={path}"]
    return stand.serve("traefik", command, port, ready="/v1/chat/completions")


def _litellm(stand: Stand) -> Server:
    port = free_port()
    path = stand.configuration("litellm.yml", upstream=stand.upstream_url)
    env = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it would fetch a newer one from elsewhere
        "LITELLM_LOG": "CRITICAL",
        "PYTHONPATH": "",  # nothing of ours
    }
    stand.configuration("litellm_callers.py")  # it is looked for beside the other one
    program = python_program("litellm", LITELLM)
    command = [program, "--config", str(path), "--host", HOST, "--port", str(port)]
    form = Form(dict.fromkeys(Kind, ""), models={kind: str(kind) for kind in Kind})
    return stand.serve("litellm", command, port, env=env, form=form, ready="/health/liveliness")


def _portkey(stand: Stand) -> Server:
    port = free_port()
    command = node_script(
        "portkey", CONFIGURATIONS / "portkey.json", "@portkey-ai/gateway/build/start-server.js"
    )
    headers = {
        kind: {
            "x-portkey-provider": "openai",
            "x-portkey-custom-host": f"{stand.upstream_url}{DIRECT.prefixes[kind]}/v1",
        }
        for kind in Kind
    }
    form = Form(dict.fromkeys(Kind, ""), headers)
    command = [*command, f"--port={port}", "--headless"]
    return stand.serve("portkey", command, port, form=form, ready="/")


def lineup(database_url: str) -> list[Participant]:
    """Everybody, with an Ibex of one worker and one of two on that database."""
    one = Participant(
        IBEX, "**Ibex**", lambda stand: ibex(stand, 1, database_url, IBEX), is_quick=True
    )
    two = Participant(
        IBEX_2, "**Ibex**, two workers", lambda stand: ibex(stand, 2, database_url, IBEX_2)
    )
    return [
        Participant(DIRECT_ROW, "no gateway", _direct, limits=False, is_quick=True),
        one,
        two,
        Participant(TRAEFIK_ROW, "Traefik + Redis rate limit", _traefik, is_quick=True),
        Participant(NGINX_ROW, "nginx + Lua + Redis: a limit, nothing else", _nginx),
        Participant(PORTKEY_ROW, "Portkey: no limits", _portkey, limits=False),
        Participant(LITELLM_ROW, "LiteLLM proxy", _litellm, is_slow=True),
    ]

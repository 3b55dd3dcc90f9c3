"""Measures the operators' pages: how much is sent, and how long the server takes for each."""

import asyncio
import http.client
import sys
import time
from collections.abc import Mapping
from statistics import median
from urllib.parse import urlencode

import msgspec
import psutil  # type: ignore[import-untyped]  # ships no types
from operated_hour import operate
from stand import Effort, Server, Stand, typical

from dashboard import static_files
from gateway.embedded import free_port

FEW, MANY = 50, 10_000
"""Agents of the two organizations."""
ORGANIZATION, LARGE = f"Organization, {FEW} agents", f"Organization, {MANY:,} agents"
FILES = ("dashboard.css", "dashboard.js", "plotly.min.js")
REQUESTS = 20
ROOT = "/dashboard"
COMPRESSED = {"Accept-Encoding": "br, gzip"}


class PageFigures(msgspec.Struct, frozen=True):
    """Bytes of a page, bare and as a browser gets them; the time and the CPU of one request."""

    bare: float
    sent: float
    p50_ms: float
    cpu_ms: float


class Dashboard(msgspec.Struct, frozen=True):
    """By page; and by static file its bytes, bare and as a browser gets them."""

    pages: Mapping[str, PageFigures]
    files: Mapping[str, tuple[int, int]]


class Browser:
    """A platform operator's, on one connection that is kept."""

    def __init__(self, server: Server, key: str) -> None:
        self._server = psutil.Process(server.pid)
        address = server.address
        self._connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
        form = urlencode({"key": key, "next": ROOT})
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
        }
        self._connection.request("POST", f"{ROOT}/sign-in", form, headers)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == http.client.SEE_OTHER, answer.status
        self._cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}

    def close(self) -> None:
        """Leave."""
        self._connection.close()

    def size(self, path: str, headers: Mapping[str, str]) -> int:
        """Bytes of the body."""
        self._connection.request("GET", path, headers={**self._cookie, **headers})
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == http.client.OK, (path, answer.status)
        return len(body)

    def page(self, path: str) -> PageFigures:
        """Ask for it as often as it takes to measure."""
        bare = self.size(path, {})
        before, took = self._cpu_s(), []
        for _ in range(REQUESTS):
            start = time.perf_counter()
            sent = self.size(path, COMPRESSED)
            took.append(time.perf_counter() - start)
        cpu_s = self._cpu_s() - before
        return PageFigures(bare, sent, median(took) * 1000, cpu_s / REQUESTS * 1000)

    def _cpu_s(self) -> float:
        times = self._server.cpu_times()
        return float(times.user + times.system)


def measure(stand: Stand, effort: Effort) -> Dashboard:
    """The typical figures of each page. All answers were 200."""
    few, many = asyncio.run(operate(stand.postgres.url, stand.valkey.url, (FEW, MANY)))
    organization = f"{ROOT}/organizations/{few.organization_id}"
    paths = {
        "Overview": ROOT,
        ORGANIZATION: organization,
        "its update": f"{organization}/live",
        "Agent": f"{ROOT}/agents/{few.agent_id}",
        "Changes": f"{organization}/changes",
        LARGE: f"{ROOT}/organizations/{many.organization_id}",
    }
    browser = Browser(_start(stand), few.platform_key)
    try:
        pages = {
            name: typical([browser.page(path) for _ in range(effort.rounds)])
            for name, path in paths.items()
        }
        urls = {name: static_files.files().url(name) for name in FILES}
        files = {
            name: (browser.size(url, {}), browser.size(url, COMPRESSED))
            for name, url in urls.items()
        }
        return Dashboard(pages, files)
    finally:
        browser.close()


def _start(stand: Stand) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "gateway", "serve", "--only", "management"]
    env = {"DATABASE_URL": stand.postgres.url, "REDIS_URL": stand.valkey.url}
    address = ["--host", "127.0.0.1", "--port", str(port)]
    return stand.serve("dashboard", [*command, *address], port, env)

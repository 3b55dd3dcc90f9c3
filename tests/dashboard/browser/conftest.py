"""Operators' own browser, Chromium, before a gateway as it runs for its users."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from audited import axe_source
from gateway_process import GatewayProcess
from gateway_stack import Stack, Tenants
from missing import missing
from operator_browser import FLAGS, Faults, Office, Open
from playwright.sync_api import Browser, Page, sync_playwright
from raw_upstream import RawUpstream
from servers import PostgresServer, RedisServer, eventually, run_apart

from db.migrate import migrate


@pytest.fixture(scope="module")
def _browser() -> Iterator[Browser]:
    """It ends with the module: while it runs, no test in this thread can be a coroutine."""
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("Chromium is not here, which the pages are looked at with")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def _upstream() -> Iterator[RawUpstream]:
    with RawUpstream() as upstream:
        yield upstream


@contextmanager
def running(home: Path, postgres: PostgresServer, upstream: RawUpstream) -> Iterator[Stack]:
    """A gateway with a Redis of its own and a new database."""
    with ExitStack() as exits:
        redis = RedisServer(home / "browser-valkey")
        exits.callback(redis.stop)
        redis.start()
        database_url = exits.enter_context(postgres.database())
        run_apart(lambda: migrate(database_url))
        env = {
            "DATABASE_URL": database_url,
            "REDIS_URL": redis.url,
            "LIMITER_DEADLINE_MS": "5000",  # a busy machine is not an outage
            "UPSTREAM_RAW_URL": upstream.url,
            "UPSTREAM_RAW_KEY": "sk-upstream-secret",
        }
        gateway = GatewayProcess(home / "browser-gateway.log", env)
        exits.callback(gateway.stop)
        yield Stack(gateway, redis, Tenants(database_url, redis.url), database_url)


@pytest.fixture(scope="session")
def _stack(
    servers_home: Path, postgres_server: PostgresServer, _upstream: RawUpstream
) -> Iterator[Stack]:
    with running(servers_home, postgres_server, _upstream) as stack:
        yield stack


@pytest.fixture
def own_office(
    tmp_path: Path, postgres_server: PostgresServer, _upstream: RawUpstream
) -> Iterator[Office]:
    """A gateway and a Redis of the test's own, to be treated badly."""
    with running(tmp_path, postgres_server, _upstream) as stack:
        yield Office(stack)


@pytest.fixture
def office(_stack: Stack) -> Iterator[Office]:
    """The session's gateway, and an organization of the test's own. Nothing is admitted open."""
    yield Office(_stack)
    assert eventually(lambda: _stack.gateway.readyz()["limiter"]["unsettled"] == 0)
    assert _stack.gateway.readyz()["limiter"]["admitted_open"] == 0
    assert "internal error" not in _stack.gateway.log


@pytest.fixture
def faults() -> Iterator[Faults]:
    """What went wrong in the test's pages. At its end there is nothing that it has not expected."""
    found = Faults()
    yield found
    assert found.unexpected == []


@pytest.fixture
def open_page(_browser: Browser, faults: Faults) -> Iterator[Open]:
    """`open_page(url, **options)`: a page in a fresh profile, watched. Options: new_context's."""
    with ExitStack() as exits:

        def open_(url: str, **options: Any) -> Page:
            context = _browser.new_context(
                **{"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options}
            )
            exits.callback(context.close)
            faults.watch(context, url)
            page = context.new_page()
            page.clock.install()
            page.goto(url)
            return page

        yield open_


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    return axe_source(tmp_path_factory.mktemp("axe"))

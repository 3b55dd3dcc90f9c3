"""Both transports, on both event loops, in front of an upstream that is controlled byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import httpx
import pytest
import uvloop
from asking import TLS, TRANSPORTS, Ask
from raw_upstream import RawUpstream

from gateway.upstream.lean import LeanTransport
from gateway.upstream.pool import PoolLimits


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here runs on both: uvloop is not there everywhere."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def wire() -> Iterator[RawUpstream]:
    """The upstream, one for each test: it counts connections."""
    with RawUpstream() as upstream:
        yield upstream


@pytest.fixture(params=TRANSPORTS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which transport: each of them, where a test does not say it."""
    name: str = request.param
    return name


@pytest.fixture
async def transport(kind: str) -> AsyncIterator[httpx.AsyncBaseTransport]:
    """The transport of that kind."""
    async with TRANSPORTS[kind]() as made:
        yield made


@pytest.fixture
async def ask(transport: httpx.AsyncBaseTransport, wire: RawUpstream) -> Ask:
    """`await ask("POST", ...)`: one request to the upstream."""
    return Ask(transport, wire.url)


@pytest.fixture
async def lean() -> AsyncIterator[LeanTransport]:
    """The lean transport, with at most three connections."""
    async with LeanTransport(TLS, PoolLimits(connections=3, idle=2, idle_s=30)) as made:
        yield made


@pytest.fixture
async def ask_lean(lean: LeanTransport, wire: RawUpstream) -> Ask:
    """The same as `ask`, over that one."""
    return Ask(lean, wire.url)

"""The last thing that is done to a line of the log."""

import pytest
from gateway_stack import StartGateway
from raw_calls import call, provision
from raw_upstream import Peer, RawUpstream
from servers import RedisServer, eventually

from db.api_keys import Role, generate
from gateway.logs import covering


@pytest.mark.parametrize("secret", [*map(generate, Role), "sk-upstream", "a+b.c(d)e"])
def test_no_key_stays_in_a_line(secret: str) -> None:
    """An upstream's, or Ibex's own of any role, wherever it stands."""
    cover = covering(["sk-upstream", None, "", "a+b.c(d)e"])
    assert cover(None, "error", f"KeyError: '{secret}'") == "KeyError: '***'"  # type: ignore[arg-type]


def test_words_stay_in_a_line() -> None:
    """A key that is a placeholder, and the beginning by which people know a key."""
    cover = covering(["none", "EMPTY"])
    for line in ("none is EMPTY", "ibex_agt_Ab3d"):
        assert cover(None, "error", line) == line  # type: ignore[arg-type]


def test_the_gateways_log_is_covered(
    start_gateway: StartGateway, redis_server: RedisServer, raw: RawUpstream
) -> None:
    """Here the name of an upstream, which the log tells, is its key as well."""
    stack = start_gateway(
        redis_server, UPSTREAM_SECRETIVE_URL=raw.url, UPSTREAM_SECRETIVE_KEY="secretive"
    )

    def break_off(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
        peer.close()

    raw.script = break_off
    assert not call(stack, provision(stack).agent, "/secretive/v1/x").ended
    assert eventually(lambda: '"upstream": "***"' in stack.gateway.log)
    assert "secretive" not in stack.gateway.log

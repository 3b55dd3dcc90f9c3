"""Proxies of the environment: refused with a word, never passed by in silence."""

import pytest

from gateway.proxies import proxy_fault
from gateway.settings import Settings, SettingsError

PROXY = "http://me:hunter2@proxy.test:3128"
OPENAI = "https://api.openai.com"


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_for_an_upstream_stops_the_start(variable: str) -> None:
    """One line: the variable without its value, the host, and what mends it."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_env({variable: PROXY, "UPSTREAM_OPENAI_KEY": "sk-x"})
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{variable}: ")
    assert "add api.openai.com to NO_PROXY" in line
    assert "hunter2" not in line


def test_an_upstream_that_is_not_used_needs_no_exception() -> None:
    """Without a key nothing is forwarded to it."""
    assert Settings.from_env({"HTTPS_PROXY": PROXY}).upstreams["openai"].key is None


@pytest.mark.parametrize(
    ("url", "env"),
    [
        (OPENAI, {}),
        (OPENAI, {"HTTPS_PROXY": ""}),
        (OPENAI, {"HTTP_PROXY": PROXY}),
        ("http://api.test", {"HTTPS_PROXY": PROXY}),
        ("http://localhost:11434", {"HTTP_PROXY": PROXY}),
        ("http://127.0.0.1:8000", {"ALL_PROXY": PROXY}),
        ("https://[::1]:8000", {"HTTPS_PROXY": PROXY}),
        (OPENAI, {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}),
        (OPENAI, {"HTTPS_PROXY": PROXY, "NO_PROXY": "x.test, API.openai.com"}),
        (OPENAI, {"HTTPS_PROXY": PROXY, "no_proxy": ".openai.com"}),
        (OPENAI, {"HTTPS_PROXY": PROXY, "no_proxy": "*.openai.com"}),
        (OPENAI, {"HTTPS_PROXY": PROXY, "no_proxy": "openai.com"}),
        ("https://api.test:8443/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "api.test:8443"}),
    ],
)
def test_what_is_reached_directly_is_no_fault(url: str, env: dict[str, str]) -> None:
    """Another scheme, loopback, and whatever NO_PROXY lists."""
    assert proxy_fault(env, url) == ""


@pytest.mark.parametrize(
    "listed", ["", ",", "openai.com.test", "penai.com", "i.openai.com", "com:1"]
)
def test_what_only_looks_excepted_is_not(listed: str) -> None:
    """Whole labels count, and nothing is everything but the star."""
    assert proxy_fault({"HTTPS_PROXY": PROXY, "NO_PROXY": listed}, OPENAI) != ""

"""Who calls LiteLLM's proxy, and how much they may: loaded by the proxy, in its own environment."""

from fastapi import Request
from litellm.proxy._types import UserAPIKeyAuth

PLENTY = 10**9


async def find(request: Request, api_key: str) -> UserAPIKeyAuth:
    """Every key is known; those that call the host `tight` may send one request a minute."""
    is_tight = request.headers["host"] == "tight"
    return UserAPIKeyAuth(
        api_key=api_key, rpm_limit=1 if is_tight else PLENTY, tpm_limit=PLENTY, metadata={}
    )

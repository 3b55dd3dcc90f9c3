"""The Redis key namespace. No key and no channel is spelled anywhere else."""

GLOBAL_RING = "ratelimit:global:minute"
PROBE = "ratelimit:probe"
CONFIG_PATTERN = "ratelimit:config:updated:*"


def session(token_digest: str) -> str:
    """String: who is signed in to the dashboard, by the SHA-256 of the session's token in hex."""
    return f"ibex:session:{token_digest}"


def sign_in_attempts(client_digest: str) -> str:
    """String: a number of late sign-ins that failed or wait, by the SHA-256 of who tries in hex."""
    return f"ibex:sign-in:{client_digest}"


def agent_ring(org_id: str, agent_id: str) -> str:
    """Hash: the agent's requests in the trailing 60 s, and its minutes of the last hour."""
    return f"ratelimit:{org_id}:agent:{agent_id}:minute"


def org_ring(org_id: str) -> str:
    """Hash: the same for the organization."""
    return f"ratelimit:{org_id}:minute"


def ring(org_id: str, agent_id: str | None) -> str:
    """Hash: the agent's where one is given, else the organization's."""
    return org_ring(org_id) if agent_id is None else agent_ring(org_id, agent_id)


def month_tokens(org_id: str) -> str:
    """Hash: per UTC month, `2026-11` = tokens used, `2026-11:held` = tokens reserved."""
    return f"ratelimit:{org_id}:month_tokens"


def inflight(org_id: str) -> str:
    """Sorted set: the organization's open reservations, score = lease end in Unix ms."""
    return f"ratelimit:{org_id}:inflight"


def config_channel(org_id: str) -> str:
    """Channel: limits, agents or keys of that organization changed."""
    return f"ratelimit:config:updated:{org_id}"

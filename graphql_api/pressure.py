"""How near to its limits something is: pure, so that every list is in the same order."""

from graphql_api.model import RateLimits


def pressure(*uses: tuple[int, int | None]) -> float:
    """Return the largest part of a limit that is used, of pairs of use and limit.

    No limit (None) presses with 0. A limit of 0, which nothing passes, with 1. Where a limit was
    lowered below what is used, it is above 1.
    """
    return max((_part(used, limit) for used, limit in uses), default=0.0)


def pressure_on(limits: RateLimits) -> float:
    """Return the pressure on an organization or agent, by the limits that are its own.

    An agent has its requests; an organization has its requests, and its tokens used and held.
    """
    requests = limits.current_minute_requests or 0
    if limits.agent_id is not None:
        return pressure((requests, limits.agent_requests_per_minute))
    tokens = (limits.current_month_tokens or 0) + (limits.held_tokens or 0)
    return pressure(
        (requests, limits.org_requests_per_minute), (tokens, limits.org_tokens_per_month)
    )


def _part(used: int, limit: int | None) -> float:
    if limit is None:
        return 0.0
    return used / limit if limit else 1.0

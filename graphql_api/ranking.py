"""Long lists with what is nearest to its limits on top, a page at a time.

All of a list takes part in its order, so of all only that is read which decides the order, in
parts between which the event loop has its turn. The rest is read for the page that is shown, whose
pressure is that of the numbers beside it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from db.limits import Limits, Override, effective
from db.repository import Repository
from db.rows import Target
from graphql_api import translation
from graphql_api.model import (
    AgentRow,
    OrganizationRow,
    Ranked,
    RateLimits,
    UsagePoint,
    Viewer,
)
from graphql_api.pressure import pressure, pressure_on
from lua import keys
from lua.usage import LiveNumbers

AT_ONCE = 1000
"""Pressures that are computed before the event loop gets its turn: about 2 ms."""

LimitsOf = Callable[[Viewer, Sequence[Target]], Awaitable[list[RateLimits]]]

Row = TypeVar("Row", OrganizationRow, AgentRow)

_Candidate = tuple[Target, int | None, int | None]
"""What may be on the page, its limit of requests and its ceiling of tokens in force."""


class Ranking:
    """Over Postgres, Redis, and `limits_of`, which reads limits and numbers of a page."""

    def __init__(
        self,
        repository: Repository,
        live: LiveNumbers,
        defaults: Limits,
        limits_of: LimitsOf,
    ) -> None:
        self._repository = repository
        self._live = live
        self._defaults = defaults
        self._limits_of = limits_of

    async def organizations(
        self, viewer: Viewer, only: str | None, page: int, size: int
    ) -> Ranked[OrganizationRow]:
        """Return a page of all organizations, or of `only` this one."""
        set_ = await self._repository.organization_limits(only)
        candidates = [self._organization(*each) for each in set_]
        shown, page, pages = await self._page(candidates, page, size)
        found = await self._repository.organizations_by_id([org_id for org_id, _ in shown])
        limits = await self._limits_of(viewer, shown)
        hours = await self._hours(shown)
        rows = [
            OrganizationRow(
                translation.organization(found[each.organization_id]),
                each,
                pressure_on(each),
                translation.denied_in(hour),
            )
            for each, hour in zip(limits, hours, strict=True)
        ]
        return _ranked(rows, len(candidates), page, pages)

    async def agents(self, viewer: Viewer, org_id: str, page: int, size: int) -> Ranked[AgentRow]:
        """Return a page of an organization's agents."""
        set_ = await self._repository.agent_limits(org_id)
        default = self._defaults.agent_rpm
        candidates: list[_Candidate] = [
            ((org_id, agent_id), default if rpm is None else rpm, None) for agent_id, rpm in set_
        ]
        shown, page, pages = await self._page(candidates, page, size)
        ids = [agent_id for _, agent_id in shown if agent_id]
        found = await self._repository.agents_by_id(org_id, ids)
        limits = await self._limits_of(viewer, shown)
        rows = [
            AgentRow(translation.agent(found[id_]), each, pressure_on(each), hour)
            for id_, each, hour in zip(ids, limits, await self._hours(shown), strict=True)
        ]
        return _ranked(rows, len(candidates), page, pages)

    def _organization(self, org_id: str, rpm: int | None, tokens: int | None) -> _Candidate:
        limits = effective(self._defaults, Override(rpm, tokens), Override())
        return (org_id, None), limits.org_rpm, limits.org_tokens_per_month

    async def _page(
        self, candidates: Sequence[_Candidate], page: int, size: int
    ) -> tuple[list[Target], int, int]:
        """Return what is on the page, which page it is, and of how many: none is past the last."""
        pages = max(1, -(-len(candidates) // size))
        page = min(page, pages)
        order = await self._order(candidates)
        shown = order[(page - 1) * size : page * size]
        return [candidates[place][0] for place in shown], page, pages

    async def _order(self, candidates: Sequence[_Candidate]) -> list[int]:
        """Return their places: the highest pressure first, then requests, then as they stand."""
        uses = await self._live.uses([target for target, _, _ in candidates])
        ranks: list[tuple[float, int, int]] = []
        for place, ((_, rpm, ceiling), use) in enumerate(zip(candidates, uses, strict=True)):
            pressed = pressure((use.requests, rpm), (use.tokens, ceiling))
            ranks.append((-pressed, -use.requests, place))
            if place % AT_ONCE == 0:
                await asyncio.sleep(0)
        ranks.sort()
        return [place for _, _, place in ranks]

    async def _hours(self, shown: Sequence[Target]) -> list[tuple[UsagePoint, ...]]:
        hours = []
        for minutes in await self._live.last_hours([keys.ring(*target) for target in shown]):
            hours.append(tuple(translation.usage_point(minute) for minute in minutes))
            await asyncio.sleep(0)
        return hours


def _ranked(rows: list[Row], total: int, page: int, pages: int) -> Ranked[Row]:
    """Order the rows by their own numbers, which are newer than those that chose the rows."""
    rows.sort(key=lambda row: (-row.pressure, -(row.limits.current_minute_requests or 0)))
    return Ranked(tuple(rows), total, page, pages)

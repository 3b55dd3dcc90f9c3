"""Keys and limits in memory: one immutable snapshot, swapped whole, kept true by a watcher.

The watcher loads what a message names within moments, compares every version when the
subscription (re)stands, and again by a poll. An organization's older version never replaces a
newer one; a load that fails keeps the last good snapshot and is tried again.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

import msgspec
import structlog

from db.errors import DatabaseError
from db.limits import Limits, effective
from db.repository import Repository
from db.rows import OrganizationConfig
from lua.decision import Subject

CANCEL_AGAIN_S = 0.25
RETRY_S = 1.0

log = structlog.get_logger("ibex.config")


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Whose key it is."""

    key_id: str
    subject: Subject


class _Organization(msgspec.Struct, frozen=True, gc=False):
    version: int
    digests: tuple[bytes, ...]


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """Every live agent key, by its SHA-256, with the limits in force for it."""

    callers: Mapping[bytes, Caller] = {}
    organizations: Mapping[str, _Organization] = {}

    def with_(self, loaded: list[OrganizationConfig], defaults: Limits) -> "Snapshot":
        """A new snapshot in which these organizations are replaced, where they are newer."""
        callers, organizations = dict(self.callers), dict(self.organizations)
        for config in loaded:
            known = organizations.get(config.id)
            if known and known.version > config.version:
                continue
            for digest in known.digests if known else ():
                callers.pop(digest, None)
            found = _callers(config, defaults)
            callers.update(found)
            organizations[config.id] = _Organization(config.version, tuple(found))
        return Snapshot(callers, organizations)

    def without(self, org_ids: set[str]) -> "Snapshot":
        """A new snapshot that knows nothing of these organizations."""
        gone = {digest for org_id in org_ids for digest in self.organizations[org_id].digests}
        return Snapshot(
            {digest: caller for digest, caller in self.callers.items() if digest not in gone},
            {org_id: org for org_id, org in self.organizations.items() if org_id not in org_ids},
        )


def _callers(config: OrganizationConfig, defaults: Limits) -> dict[bytes, Caller]:
    subjects = {}
    for agent in config.agents:
        limits = effective(defaults, config.override, agent.override)
        rpm = (limits.agent_rpm, limits.org_rpm, limits.global_rpm)
        subjects[agent.id] = Subject.of((config.id, agent.id), rpm, limits.org_tokens_per_month)
    return {key.digest: Caller(key.id, subjects[key.agent_id]) for key in config.keys}


class Config:
    """The snapshot and its watcher. `changes` subscribes anew each time it is called."""

    def __init__(
        self,
        repository: Repository,
        defaults: Limits,
        changes: Callable[[], AsyncGenerator[str | None, None]],
        *,
        poll_s: float,
    ) -> None:
        self.snapshot = Snapshot()
        self.failed_loads = 0
        self.subscribed = False
        self._compared = time.monotonic()
        self._summed = (self.snapshot, 0)
        self._repository = repository
        self._defaults = defaults
        self._changes = changes
        self._poll_s = poll_s
        self._named: set[str] = set()
        self._compare_all = False
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_stale(self) -> bool:
        """The last load failed: the snapshot may be older than Postgres."""
        return self.failed_loads > 0

    @property
    def age_s(self) -> float:
        """Seconds since everything was last known to be what Postgres says."""
        return time.monotonic() - self._compared

    @property
    def version(self) -> int:
        """The sum of all organizations' versions, which rises with every change."""
        if self._summed[0] is not self.snapshot:
            known = self.snapshot.organizations.values()
            self._summed = (self.snapshot, sum(organization.version for organization in known))
        return self._summed[1]

    async def start(self) -> None:
        """Load everything, then watch. Raises DatabaseError."""
        self._compared = time.monotonic()
        loaded = await self._repository.load(None)
        self.snapshot = Snapshot().with_(loaded, self._defaults)
        self._tasks = [asyncio.create_task(self._load()), asyncio.create_task(self._subscribe())]

    async def stop(self) -> None:
        """Stop watching. A wait that ends just now swallows a cancellation: tell again."""
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=CANCEL_AGAIN_S)

    async def _subscribe(self) -> None:
        while True:
            try:
                async with aclosing(self._changes()) as changes:
                    async for org_id in changes:
                        self._hear(org_id)
            except Exception as error:  # noqa: BLE001 - whatever it was, listening goes on
                if self.subscribed:
                    log.warning("changes are not heard, they are polled", reason=str(error))
                self.subscribed = False
            await asyncio.sleep(RETRY_S)

    def _hear(self, org_id: str | None) -> None:
        if org_id is None:
            if not self.subscribed:
                log.info("changes are heard")
            self.subscribed = True
            self._compare_all = True
        elif _is_id(org_id):
            self._named.add(org_id)
        self._wake.set()

    async def _load(self) -> None:
        """The one place where the snapshot is swapped."""
        while True:
            try:
                await asyncio.wait_for(self._wake.wait(), self._poll_s)
            except TimeoutError:
                self._compare_all = True
            self._wake.clear()
            named, compare_all = self._named, self._compare_all
            self._named, self._compare_all = set(), False
            try:
                await self._refresh(named, compare_all=compare_all)
            except Exception as error:  # noqa: BLE001 - whatever it was, the next load may succeed
                self._failed(named, error, compare_all=compare_all)
                await asyncio.sleep(RETRY_S)
            else:
                if self.is_stale:
                    log.warning("keys and limits are loaded again")
                self.failed_loads = 0

    def _failed(self, named: set[str], error: Exception, *, compare_all: bool) -> None:
        if not self.is_stale:
            log.error(
                "keys and limits cannot be loaded: the last ones stay",
                reason=str(error),
                exc_info=None if isinstance(error, DatabaseError) else error,
            )
        self.failed_loads += 1
        self._named |= named
        self._compare_all = self._compare_all or compare_all
        self._wake.set()

    async def _refresh(self, named: set[str], *, compare_all: bool) -> None:
        began = time.monotonic()
        if compare_all:
            versions = await self._repository.versions()
            known = self.snapshot.organizations
            if gone := known.keys() - versions.keys():
                self.snapshot = self.snapshot.without(gone)
            named = named | {
                org_id
                for org_id, version in versions.items()
                if org_id not in known or known[org_id].version < version
            }
        if named:
            loaded = await self._repository.load(named)
            self.snapshot = self.snapshot.with_(loaded, self._defaults)
        if compare_all:
            self._compared = began


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False

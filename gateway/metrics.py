"""`GET /metrics`: the numbers of all workers as one, in Prometheus's text format.

Workers know each other by a folder of their parent's: each writes its numbers there every second,
when it is asked for them, and at its end. Whoever is asked adds up what is there. So a worker that
has died still counts with all that was ever told of it, and a counter never goes back; its gauges
are gone with it, since the parent marks its file.
"""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from gateway.numbers import FAMILIES, Kind, Numbers

PUBLISH_EVERY_S = 1.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_FILE = ".json"
_ENDED = ".ended"
_MERGES: dict[Kind, Callable[[float, float], float]] = {
    "counter": float.__add__,
    "histogram": float.__add__,
    "sum": float.__add__,
    "max": max,
    "min": min,
}

log = structlog.get_logger("ibex.gateway")


class Told(msgspec.Struct):
    """What one worker tells: what grows, and what is so at the moment, by full sample names."""

    growing: dict[str, float]
    current: dict[str, float]


class Metrics:
    """The numbers of this worker and, where it has a folder, of those beside it."""

    def __init__(
        self,
        numbers: Numbers,
        read: Callable[[], tuple[Mapping[str, float], Mapping[str, float]]],
        folder: Path | None,
    ) -> None:
        """`read` tells what is not counted in `numbers`: what grows, and what is so just now."""
        self._numbers = numbers
        self._read = read
        self._folder = folder
        self._name = f"{os.getpid()}-{time.time_ns()}"
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Write the numbers from now on, if somebody may read them."""
        if self._folder:
            self._task = asyncio.create_task(self._publish_on())

    async def close(self) -> None:
        """Write what was counted at last."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._publish(self._tell())

    def text(self) -> str:
        """All workers' numbers."""
        told = self._tell()
        self._publish(told)
        return exposition([told] if self._folder is None else _read_all(self._folder))

    def _tell(self) -> Told:
        growing, current = self._read()
        return Told(
            {**self._numbers.samples(), **growing, **_process_growing()},
            {**current, **_process_current()},
        )

    def _publish(self, told: Told) -> None:
        if self._folder:
            draft = self._folder / f"{self._name}.draft"
            try:
                draft.write_bytes(msgspec.json.encode(told))
                draft.replace(self._folder / f"{self._name}{_FILE}")
            except OSError as error:
                log.warning("numbers cannot be written for other workers", reason=str(error))

    async def _publish_on(self) -> None:
        while True:
            self._publish(self._tell())
            await asyncio.sleep(PUBLISH_EVERY_S)


def mark_ended(folder: Path, pid: int) -> None:
    """Say that a worker is gone: what it had counted stays, what was so at the moment does not."""
    for file in folder.glob(f"{pid}-*{_FILE}"):
        file.with_suffix(_ENDED).touch()


def exposition(workers: list[Told]) -> str:
    """Several workers' numbers as one text, in the order of the families."""
    merged: dict[str, dict[str, float]] = {}
    for told in workers:
        for sample, value in (told.growing | told.current).items():
            name = _family(sample)
            samples = merged.setdefault(name, {})
            merge = _MERGES[FAMILIES[name].kind]
            before = samples.get(sample)
            samples[sample] = float(value) if before is None else merge(before, float(value))
    lines = []
    for name, family in FAMILIES.items():
        kind = family.kind if family.kind in ("counter", "histogram") else "gauge"
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {kind}"]
        lines += [f"{sample} {value:.17g}" for sample, value in merged.get(name, {}).items()]
    return "\n".join(lines) + "\n"


def _family(sample: str) -> str:
    name = sample.partition("{")[0]
    return name if name in FAMILIES else name.rpartition("_")[0]


def _read_all(folder: Path) -> list[Told]:
    """Those that have ended count, but are nothing at the moment."""
    found = []
    for file in sorted(folder.glob(f"*{_FILE}")):
        told = msgspec.json.decode(file.read_bytes(), type=Told)
        found.append(Told(told.growing, {}) if file.with_suffix(_ENDED).exists() else told)
    return found


def _process_growing() -> dict[str, float]:
    used = os.times()
    collections = {
        f'python_gc_collections_total{{generation="{number}"}}': stats["collections"]
        for number, stats in enumerate(gc.get_stats())
    }
    return {"process_cpu_seconds_total": used.user + used.system, **collections}


def _process_current() -> dict[str, float]:
    found: dict[str, float] = {"ibex_workers": 1}
    with suppress(OSError):  # other systems than Linux have no /proc
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        found["process_resident_memory_bytes"] = pages * os.sysconf("SC_PAGE_SIZE")
        found["process_open_fds"] = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names suffice
    return found

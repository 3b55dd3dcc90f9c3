"""What a server's processes take: all of them, children included."""

from collections.abc import Iterator

import psutil  # type: ignore[import-untyped]  # ships no types


def cpu_s(pid: int) -> float:
    """CPU seconds so far, user and system."""
    times = [process.cpu_times() for process in _family(pid)]
    return float(sum(time.user + time.system for time in times))


def memory_bytes(pid: int) -> int:
    """Memory now; pages that processes share are counted once."""
    return sum(process.memory_full_info().pss for process in _family(pid))


def _family(pid: int) -> Iterator[psutil.Process]:
    first = psutil.Process(pid)
    yield first
    yield from first.children(recursive=True)

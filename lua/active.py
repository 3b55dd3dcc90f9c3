"""Whose counters have changed lately: what the ledger has to copy, and nothing else."""

from collections.abc import Iterable

from lua.decision import Subject


class Active:
    """Subjects, by their ring. Each is handed out twice: what is counted a few seconds late, such
    as denials, is there by the second time.
    """

    def __init__(self) -> None:
        self._now: dict[bytes, Subject] = {}
        self._before: dict[bytes, Subject] = {}

    def mark(self, subject: Subject) -> None:
        """Something was counted, or will be."""
        self._now[subject.agent_key] = subject

    def take(self) -> list[Subject]:
        """Those of now and of the time before."""
        taken = self._before | self._now
        self._before, self._now = self._now, {}
        return list(taken.values())

    def put_back(self, subjects: Iterable[Subject]) -> None:
        """They could not be copied."""
        for subject in subjects:
            self.mark(subject)

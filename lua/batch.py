"""The KEYS of one script call: every key once, and where each request finds its own."""

from lua import keys
from lua.decision import Subject
from lua.scripts import Argument

_PLATFORM = keys.GLOBAL_RING.encode()


class Keys:
    """Collects the keys of a batch of subjects. Indices count from 1, as Lua does."""

    __slots__ = ("_index", "all")

    def __init__(self) -> None:
        self.all: list[Argument] = [_PLATFORM]
        self._index: dict[bytes, int] = {}

    def of(self, subject: Subject) -> tuple[int, int]:
        """Where the agent's ring is, and the first of the organization's three keys."""
        agent = self._index.get(subject.agent_key)
        if agent is None:
            self.all.append(subject.agent_key)
            agent = self._index[subject.agent_key] = len(self.all)
        org = self._index.get(subject.org_keys[0])
        if org is None:
            org = self._index[subject.org_keys[0]] = len(self.all) + 1
            self.all += subject.org_keys
        return agent, org

"""Agents' requests, limited as a gateway does it, for what operators are shown of them."""

from gateway.breaker import Breaker
from lua.connection import RedisAddress, connect
from lua.decision import Decision, Reservation, Subject
from lua.limiter import LuaLimiter
from lua.recorder import Recorder
from lua.usage import LiveNumbers


class Traffic:
    """A limiter on the world's Redis, as a gateway has it."""

    def __init__(self, url: str) -> None:
        self._client = connect(RedisAddress(url), timeout_s=5)
        self._gate = Breaker(self._answers)
        self.limiter = LuaLimiter(self._client, self._gate, deadline_s=5, lease_s=60)
        self.recorder = Recorder(self._client, self._gate)
        self.numbers = LiveNumbers(self._client)

    async def request(
        self,
        org_id: str,
        agent_id: str,
        tokens: int | None,
        agent_rpm: int | None = None,
        *,
        is_estimate: bool = False,
    ) -> None:
        """One request that holds 20; `tokens` None: it is still under way."""
        subject = Subject.of((org_id, agent_id), (agent_rpm, None, None), None)
        decision = await self.limiter.admit(subject, 20, 0)
        assert not decision.is_open
        if not decision.admitted:
            self.recorder.denied(decision)
        elif tokens is not None:
            self.limiter.settle(decision.reservation, tokens, is_estimate=is_estimate)

    def forwarded_open(self, org_id: str, agent_id: str) -> None:
        """One request for which the limiter gives no decision."""
        subject = Subject.of((org_id, agent_id), (None, None, None), None)
        reservation = Reservation(subject, "open")
        self.recorder.opened(Decision(subject, reservation, admitted=True, is_open=True))

    async def settled(self) -> None:
        """Everything is in Redis."""
        assert await self.limiter.spool.drain(5)
        await self.recorder.write()

    async def close(self) -> None:
        await self.limiter.close(5)
        await self.recorder.close(5)
        await self._gate.close()
        await self._client.aclose()

    @staticmethod
    async def _answers() -> bool:
        return True

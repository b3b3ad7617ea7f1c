"""What members of both protocols share: they join, commit, leave, vanish and come back."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.errors import ErrorCode
from tests.sim.cluster.routing import TryAgain
from tests.sim.replication.groups.coordinator_line import CoordinatorLine
from tests.sim.replication.groups.group_state import GroupState
from tests.sim.replication.world import Target

# A member that hears these joins again as another one.
GONE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
AWAY_MS_MAX = 4_000


class Member(ABC):
    """Works until its group is settled in peace. A static member keeps its instance id."""

    def __init__(self, state: GroupState, name: str, *, is_static: bool) -> None:
        self.name = name
        self._state = state
        self._world = state.world
        self._entropy = state.world.entropy.fork(name)
        self._coordinator = CoordinatorLine(state, name, self._entropy)
        self._instance_id = name if is_static else None
        self._member_id = ""
        self._excuses = 0
        state.members.append(self)

    def __repr__(self) -> str:
        return f"{self.name}, in {self.settled_in}, with {[str(each) for each in self.owned]}"

    # As of `GroupMember`

    @property
    @abstractmethod
    def settled_in(self) -> int | None: ...

    @property
    @abstractmethod
    def owned(self) -> frozenset[Target]: ...

    # The two protocols

    @abstractmethod
    async def _beat(self) -> None:
        """Joins, or sends a heartbeat."""

    @abstractmethod
    async def _commit(self) -> None: ...

    @abstractmethod
    async def _leave(self) -> None: ...

    @abstractmethod
    def _give_up(self) -> None:
        """It is no member any more, and owns nothing."""

    @abstractmethod
    def _lose_answer(self) -> None:
        """A request may have been processed, or not."""

    async def run(self) -> None:
        while not self._state.is_settled:
            if self._excuses != self._state.excuses:
                # What the group has saved may be that of another time.
                self._excuses = self._state.excuses
                self._give_up()
            try:
                await self._pick_step()()
            except TryAgain:
                # Also a request that a coordinator refuses because it has moved may be processed.
                self._lose_answer()
            except (OSError, TimeoutError):
                self._lose_answer()
                self._coordinator.close()
            self._state.settle()
            await asyncio.sleep(self._entropy.between(20, 400) / 1e3)
        self._coordinator.close()

    def _fields(self, generation: int) -> dict[str, Any]:
        """Those of its commits, with a generation or a member epoch."""
        return {
            "member_id": self._member_id,
            "generation": generation,
            "group_instance_id": self._instance_id,
        }

    def _pick_step(self) -> Callable[[], Awaitable[None]]:
        draw = self._entropy.below(100)
        if not self.owned or draw < 50:
            return self._beat
        if draw < 80:
            return self._commit
        if draw < 92 or self._world.is_calm:
            return self._check_offsets
        return self._leave_for_a_while if draw < 96 else self._vanish

    async def _check_offsets(self) -> None:
        await self._coordinator.check_offsets(self._entropy.pick(sorted(self.owned)))

    async def _leave_for_a_while(self) -> None:
        try:
            await self._leave()
        finally:
            self._give_up()
        await self._stay_away()

    async def _vanish(self) -> None:
        """Its process has died."""
        self._give_up()
        self._coordinator.close()
        await self._stay_away()

    async def _stay_away(self) -> None:
        await asyncio.sleep(self._entropy.between(0, AWAY_MS_MAX) / 1e3)

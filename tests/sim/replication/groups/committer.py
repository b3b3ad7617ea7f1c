"""A client without a group: it commits offsets under a group id, and fetches them again."""

import asyncio

from ottla.errors import ErrorCode
from tests.sim.cluster.routing import TryAgain
from tests.sim.replication.groups.coordinator_line import CoordinatorLine
from tests.sim.replication.groups.group_state import GroupState

COMMIT_VERSION = 8


class Committer:
    """Until the world is calm."""

    def __init__(self, state: GroupState, name: str) -> None:
        self.name = name
        self._state = state
        self._entropy = state.world.entropy.fork(name)
        self._coordinator = CoordinatorLine(state, name, self._entropy)

    def __repr__(self) -> str:
        return f"{self.name}, {self._state.commits} commits"

    async def run(self) -> None:
        while not self._state.world.is_calm:
            try:
                await self._step()
            except TryAgain:
                pass
            except (OSError, TimeoutError):
                self._coordinator.close()
            await asyncio.sleep(self._entropy.between(0, 400) / 1e3)
        self._coordinator.close()

    async def _step(self) -> None:
        target = self._entropy.pick(self._state.targets)
        if self._entropy.chance(0.3):
            await self._coordinator.check_offsets(target)
            return
        code = await self._coordinator.commit(target, self.name, COMMIT_VERSION)
        assert code == ErrorCode.NONE, f"{self.name}: {code.name}"

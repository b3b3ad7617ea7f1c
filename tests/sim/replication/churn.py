"""Topics with several replicas that are created, filled, read, deleted and created again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from ottla.protocol.primitives import Uuid
from tests.sim.broker.crowd import Client
from tests.sim.broker.history import PartitionHistory
from tests.sim.cluster.admin import Admin
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.routing import Leader, TryAgain
from tests.sim.replication.world import ReplicationWorld, Target


class Churner(Admin):
    """Nobody else writes to its topics. It does not wait for a leader that is behind."""

    name = "churner"
    # The nemesis finds their logs by the beginning of their names.
    topics: ClassVar[Sequence[str]] = ("main-churn-a", "main-churn-b")

    def __init__(self, world: ReplicationWorld) -> None:
        super().__init__(world)
        self._world: ReplicationWorld = world
        # Whether the cluster has healed, which takes a while after the last fault.
        self._is_settled = False

    @property
    def deleted(self) -> int:
        return len(self._deleted)

    async def check(self) -> None:
        """In peace: also all acknowledged records of the topics that are left can be read."""
        self._is_settled = True
        await super().check()
        for name, topic_id in self._live.items():
            # A connection that was begun before a restart is no good, see `Consumer`.
            await self._persist(partial(self._read, name, topic_id, by_name=True))
        self._routing.close()

    def _new_shape(self) -> tuple[int, dict[str, str | None]]:
        min_isr = str(self._entropy.between(1, 2))
        configs: dict[str, str | None] = {"segment.ms": "2000", "min.insync.replicas": min_isr}
        return self._entropy.between(2, 3), configs

    async def _live_and_die(self, name: str) -> None:
        try:
            await super()._live_and_die(name)
        finally:
            self._world.churned = [Target(*live, 0) for live in self._live.items()]

    def _place(self, topic_id: Uuid, leader: Leader) -> None:
        """The oracle knows the replicas of each partition."""

    def _excuses(self, topic_id: Uuid) -> int:
        return self._world.oracle.losses.interruptions((topic_id, 0))

    def _expecting_promise(self, topic_id: Uuid, line: BrokerLine) -> Callable[[], None]:
        key = topic_id, 0
        source = self._world.source(line, key)

        def expect() -> None:
            if not self._world.promises(source, line, key):
                raise TryAgain

        return expect

    def _acknowledge(self, topic_id: Uuid, offset: int, value: bytes) -> None:
        super()._acknowledge(topic_id, offset, value)
        self._world.oracle.acknowledged((topic_id, 0), offset + 1)

    def _check_end(self, history: PartitionHistory, offset: int) -> None:
        """A leader may be deposed, or not know yet how much is committed."""
        if not self._is_settled and offset < history.acknowledged_end:
            raise TryAgain
        super()._check_end(history, offset)


class Churn:
    """The churner, under the seeds that have one."""

    def __init__(self, world: ReplicationWorld) -> None:
        is_here = world.entropy.fork("churn").chance(0.5)
        self._churner = Churner(world) if is_here else None

    @property
    def topics(self) -> int:
        """How many topics were deleted."""
        return 0 if self._churner is None else self._churner.deleted

    def clients(self) -> list[Client]:
        return [] if self._churner is None else [self._churner]

    async def check(self) -> None:
        if self._churner is not None:
            await self._churner.check()

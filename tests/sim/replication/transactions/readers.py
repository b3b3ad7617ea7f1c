"""Consumers of transactional topics in a cluster, read_committed and read_uncommitted."""

from collections.abc import Sequence

from ottla.protocol.batch import BatchHeader, records
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import PartitionResult
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.transactional_readers import visible
from tests.sim.replication.consumers import Consumer
from tests.sim.replication.transactions.world import ClusterTransactions
from tests.sim.replication.world import Target


class TransactionalReader(Consumer):
    """Reads until all producers have come to their end; the audit reads all of it."""

    pause_ms_max = 300

    def __init__(self, world: ClusterTransactions, name: str, isolation: Isolation) -> None:
        super().__init__(world.base, name, isolation, list(world.targets.values()))
        self._transactions = world
        self._shown: dict[TopicPartition, dict[int, bytes]] = {each: {} for each in world.targets}
        # Where each partition was last seen to end for this consumer.
        self._ends: dict[Target, int] = {}

    async def read_all(self) -> dict[TopicPartition, dict[int, bytes]]:
        """In peace: from the first offset to the end, all that this consumer is shown."""
        self._wait_ms = 0
        while self._ends != self._positions:
            await self._read_on()
        self._routing.close()
        return self._shown

    @property
    def _is_caught_up(self) -> bool:
        return not self._transactions.producers_left

    def _has_all_of(self, target: Target) -> bool:
        return self._positions[target] == self._ends.get(target)

    def _pause_ms(self, *, is_calm: bool) -> int:
        is_in_a_hurry = is_calm and self._is_caught_up
        return self._entropy.between(1, 10 if is_in_a_hurry else self.pause_ms_max)

    def _see(
        self,
        target: Target,
        batches: Sequence[tuple[BatchHeader, memoryview]],
        result: PartitionResult,
    ) -> None:
        position = self._positions[target]
        is_committed = self._isolation is Isolation.READ_COMMITTED
        assert 0 <= result.last_stable_offset <= result.high_watermark, f"{target}: {result}"
        end_offset = result.last_stable_offset if is_committed else result.high_watermark
        self._ends[target] = end_offset
        next_offset = batches[-1][0].next_offset if batches else position
        assert next_offset <= max(position, end_offset), (
            f"{target}: {self.name} is served up to {next_offset}, it ends at {end_offset}"
        )
        aborted = result.aborted_transactions or ()
        assert is_committed or not aborted, f"{self.name}: {result}"
        shown = {
            record.offset: record.value or b""
            for content in visible(batches, aborted)
            for record in records(content)
        }
        place = TopicPartition(target.topic, target.index)
        offsets = range(position, next_offset)
        self._transactions.show(place, offsets, shown, is_committed=is_committed)
        self._shown[place].update(shown)

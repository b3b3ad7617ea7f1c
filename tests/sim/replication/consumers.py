"""Consumers that read all partitions from their leaders, and remember what they read."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import BatchHeader, records
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import FetchRequest, PartitionResult
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.list_offsets import Partition as ListedPartition
from ottla.protocol.messages.list_offsets import Topic as ListedTopic
from tests.sim.broker.consumers import batches_of
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.consumers import LEADER_EPOCHS_SINCE, PASSING, TOPIC_IDS_SINCE
from tests.sim.cluster.routing import Leader, Routing, TryAgain
from tests.sim.replication.world import ReplicationWorld, Target
from tests.support.broker.produce_and_fetch import fetch, only, wanted

EARLIEST, LIST_OFFSETS_VERSION = -2, 7


class Consumer:
    """Reads one partition after another, from the first offset on."""

    def __init__(
        self,
        world: ReplicationWorld,
        name: str,
        isolation: Isolation,
        targets: Sequence[Target] | None = None,
    ) -> None:
        """Of all partitions of the world, or of these."""
        self.name = name
        self._world = world
        self._targets = world.targets if targets is None else targets
        self._entropy = world.entropy.fork(name)
        self._routing = Routing(world, name, self._entropy.fork("routing"))
        self._isolation = isolation
        self._version = self._entropy.pick((4, 11, 12, 13, 17))
        self._sends_epochs = self._entropy.chance(0.5)
        self._positions: dict[Target, int] = dict.fromkeys(self._targets, 0)
        # The excuses of each partition when it was last read.
        self._excuses: dict[Target, int] = dict.fromkeys(self._targets, 0)
        self._wait_ms = self._entropy.pick((0, 50, 500))
        self._bytes_max = self._entropy.pick((1, 500, 1 << 20))

    def __repr__(self) -> str:
        positions = ", ".join(f"{target} {at}" for target, at in self._positions.items())
        return f"{self.name}, Fetch v{self._version}, at {positions}"

    async def run(self) -> None:
        """Until the world is calm and all of it was read once more from the start."""
        while not self._world.is_calm:
            await self._read_on()
            if self._entropy.chance(0.02):
                self._start_over()
        self._start_over()
        while not self._is_caught_up:
            await self._read_on()
        self._routing.close()

    @property
    def _is_caught_up(self) -> bool:
        return not self._world.producers_left and all(map(self._has_all_of, self._targets))

    def _has_all_of(self, target: Target) -> bool:
        """Whether it has read all that was acknowledged so far."""
        return self._positions[target] >= self._world.partition(target).acknowledged_end

    def _start_over(self) -> None:
        self._positions = dict.fromkeys(self._targets, 0)

    async def _read_on(self) -> None:
        is_calm = self._world.is_calm
        for target in self._targets:
            try:
                if not (is_calm and self._has_all_of(target)):
                    await self._poll(target)
            except (OSError, TimeoutError, TryAgain):
                self._routing.forget(*target.key)
            await asyncio.sleep(self._pause_ms(is_calm=is_calm) / 1e3)

    def _pause_ms(self, *, is_calm: bool) -> int:
        return self._entropy.between(1, 10 if is_calm else 150)

    async def _poll(self, target: Target) -> None:
        leader, line = await self._routing.leader(target.topic, target.topic_id, target.index)
        excuses = self._world.excuses(target)
        if self._excuses[target] != excuses:
            # Where it was, other batches may be now, with other bounds.
            await self._start_at_first(target, line)
            self._excuses[target] = excuses
        source = self._world.source(line, target.key)
        try:
            response = await line.line.ask(self._request(target, leader), self._version)
        except TimeoutError:
            self._routing.drop(line)
            raise
        assert response.error_code == ErrorCode.NONE, response
        if excuses != self._world.excuses(target):
            return
        is_promised = self._world.promises(source, line, target.key)
        result = only(response)
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if (
                not is_promised
                or leader.leader_epoch < self._world.oracle.losses.newest[target.key].leader_epoch
            ):
                # A deposed leader, which does not have what was read from a later one.
                raise TryAgain
            before = self._positions[target]
            await self._start_at_first(target, line)
            deleted_to = self._world.oracle.deleted_to.get(target.key, 0)
            assert before < deleted_to or self._world.excuses(target), (
                f"{target}: offset {before} is out of range, and nothing is deleted there"
            )
            return
        batches = self._accept(target, result, line)
        if not is_promised:
            self._see_kept(target, batches)
            # A connection that was begun before a restart counts as one to the former process.
            self._routing.drop(line)
            raise TryAgain
        self._see(target, batches, result)
        if batches:
            self._positions[target] = batches[-1][0].next_offset

    async def _start_at_first(self, target: Target, line: BrokerLine) -> None:
        """At the log start offset. TryAgain if the broker does not tell it."""
        partition = ListedPartition(partition_index=target.index, timestamp=EARLIEST)
        topic = ListedTopic(name=target.topic, partitions=(partition,))
        request = ListOffsetsRequest(replica_id=-1, topics=(topic,))
        result = only(await line.line.ask(request, LIST_OFFSETS_VERSION))
        if result.error_code:
            raise TryAgain
        self._positions[target] = result.offset

    def _request(self, target: Target, leader: Leader) -> FetchRequest:
        sends_epoch = self._sends_epochs and self._version >= LEADER_EPOCHS_SINCE
        partition = wanted(
            target.index,
            self._positions[target],
            bytes_max=self._bytes_max,
            leader_epoch=leader.leader_epoch if sends_epoch else -1,
        )
        topic = target.topic_id if self._version >= TOPIC_IDS_SINCE else target.topic
        return fetch(topic, partition, wait_ms=self._wait_ms, isolation=self._isolation)

    def _accept(
        self, target: Target, result: Any, line: BrokerLine
    ) -> list[tuple[BatchHeader, memoryview]]:
        """The batches that were served. TryAgain if none were."""
        if result.error_code in PASSING:
            raise TryAgain
        if result.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            assert line.life <= line.machine.failed_life, (
                f"{target} is offline on {line.machine.host}, and its disk is sound"
            )
            raise TryAgain
        position = self._positions[target]
        assert result.error_code == ErrorCode.NONE, f"{target} at {position}: {result}"
        batches = list(batches_of(result.records, position))
        for header, _ in batches:
            assert header.last_offset < result.high_watermark, (
                f"offset {header.last_offset} of {target} was served, the high watermark is"
                f" {result.high_watermark}"
            )
        return batches

    def _see_kept(self, target: Target, batches: Sequence[tuple[BatchHeader, memoryview]]) -> None:
        """Of a deposed leader: a promise is only what was acknowledged, and flushed, before."""
        history = self._world.partition(target)
        kept_end = self._world.kept_ends[target.key]
        for _, content in batches:
            for record in records(content):
                assert record.value is not None
                history.see_old(record.offset, record.value, kept_end)

    def _see(
        self,
        target: Target,
        batches: Sequence[tuple[BatchHeader, memoryview]],
        result: PartitionResult,
    ) -> None:
        """Holds what was served against what was served before. The position is that before it."""
        history = self._world.partition(target)
        for header, content in batches:
            for record in records(content):
                assert record.value is not None
                history.see(record.offset, record.value, is_current=True)
            self._world.read_to(target, header.next_offset)

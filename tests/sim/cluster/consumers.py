"""Consumers that read all partitions from their leaders, and remember what they read."""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import records
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchRequest
from tests.sim.broker.consumers import batches_of
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.routing import STALE_METADATA, Routing, TryAgain
from tests.sim.cluster.world import MAIN_TOPIC, World
from tests.support.broker.produce_and_fetch import fetch, only, wanted

TOPIC_IDS_SINCE = 13
LEADER_EPOCHS_SINCE = 9
PASSING = (*STALE_METADATA, ErrorCode.OFFSET_NOT_AVAILABLE)


class Consumer:
    """Reads one partition after another, from the first offset on."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._entropy = world.entropy.fork(name)
        self._routing = Routing(world, name, self._entropy.fork("routing"))
        self._version = self._entropy.pick((4, 11, 12, 13, 17))
        self._sends_epochs = self._entropy.chance(0.5)
        self._positions = [0] * world.shape.partitions
        # The power losses of its leader's machine, when each partition was last read.
        self._power_losses: dict[tuple[int, int], int] = {}
        self._wait_ms = self._entropy.pick((0, 50, 500))
        self._bytes_max = self._entropy.pick((1, 500, 1 << 20))

    def __repr__(self) -> str:
        return f"{self.name}, Fetch v{self._version}, at {self._positions}"

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
        return not self._world.producers_left and all(map(self._has_all_of, self._partitions))

    @property
    def _partitions(self) -> range:
        return range(self._world.shape.partitions)

    def _has_all_of(self, index: int) -> bool:
        """Whether it has read all that was acknowledged so far."""
        return self._positions[index] >= self._world.main_partition(index).acknowledged_end

    def _start_over(self) -> None:
        self._positions = [0 for _ in self._partitions]

    async def _read_on(self) -> None:
        is_calm = self._world.is_calm
        for index in self._partitions:
            try:
                if not (is_calm and self._has_all_of(index)):
                    await self._poll(index)
            except (OSError, TimeoutError, TryAgain):
                self._routing.forget(self._world.main_id, index)
            await asyncio.sleep(self._entropy.between(1, 10 if is_calm else 150) / 1e3)

    async def _poll(self, index: int) -> None:
        leader, line = await self._routing.leader(MAIN_TOPIC, self._world.main_id, index)
        key = index, leader.broker_id
        if self._power_losses.setdefault(key, line.power_losses) != line.power_losses:
            # Where it was, other batches may be now, with other bounds.
            self._power_losses[key] = line.power_losses
            self._positions[index] = 0
        try:
            reply = line.line.send(self._request(index, leader.leader_epoch), self._version)
            if self._entropy.chance(0.1):
                # Quick to answer, and yet it must wait for its turn.
                line.line.send(ApiVersionsRequest(), 0)
            response = await line.line.wait_for(reply)
        except TimeoutError:
            self._routing.drop(line)
            raise
        assert response.error_code == ErrorCode.NONE, response
        self._take(index, only(response), line)

    def _request(self, index: int, leader_epoch: int) -> FetchRequest:
        sends_epoch = self._sends_epochs and self._version >= LEADER_EPOCHS_SINCE
        partition = wanted(
            index,
            self._positions[index],
            bytes_max=self._bytes_max,
            leader_epoch=leader_epoch if sends_epoch else -1,
        )
        topic = self._world.main_id if self._version >= TOPIC_IDS_SINCE else MAIN_TOPIC
        return fetch(topic, partition, wait_ms=self._wait_ms)

    def _take(self, index: int, result: Any, line: BrokerLine) -> None:
        if result.error_code in PASSING:
            raise TryAgain
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._accept_out_of_range(index, line)
            return
        if result.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            assert line.life <= line.machine.failed_life, (
                f"partition {index} is offline on {line.machine.host}, and its disk is sound"
            )
            raise TryAgain
        assert result.error_code == ErrorCode.NONE, result
        history = self._world.main_partition(index)
        for header, content in batches_of(result.records, self._positions[index]):
            assert header.last_offset < result.high_watermark, (
                f"offset {header.last_offset} of {index} was served, the high watermark is"
                f" {result.high_watermark}"
            )
            for record in records(content):
                assert record.value is not None
                history.see(record.offset, record.value, is_current=line.is_current)
            self._positions[index] = header.next_offset

    def _accept_out_of_range(self, index: int, line: BrokerLine) -> None:
        """Only records that nobody vouched for can be gone, and only by a power loss."""
        position = self._positions[index]
        assert line.machine.power_losses, f"offset {position} of {index} is out of range"
        acknowledged_end = self._world.main_partition(index).acknowledged_end
        assert position > acknowledged_end, (
            f"offset {position} of {index} is out of range, {acknowledged_end} is not"
        )
        self._positions[index] = 0

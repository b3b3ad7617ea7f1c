"""Consumers of transactional topics, read_committed and read_uncommitted."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import BatchHeader, MarkerKind, read_marker, records
from ottla.protocol.messages import fetch
from ottla.protocol.messages.fetch import AbortedTransaction, FetchRequest, PartitionResult
from ottla.protocol.topic_partition import TopicPartition, by_topic
from tests.sim.broker.consumers import (
    LOST_SESSION,
    NEW_SESSION,
    NO_SESSION,
    SESSIONS_SINCE,
    TOPIC_IDS_SINCE,
    SessionLostError,
    batches_of,
)
from tests.sim.broker.line import Line
from tests.sim.broker.transactional_world import LASTING_PLACES, OneBrokerWorld
from tests.support.broker.produce_and_fetch import wanted

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


def visible(
    batches: Sequence[tuple[BatchHeader, memoryview]],
    aborted_transactions: Sequence[AbortedTransaction],
) -> Iterator[memoryview]:
    """By the rule of Kafka's consumer: from its first offset to its marker, an aborted transaction
    of a producer is passed over."""
    upcoming = sorted((each.first_offset, each.producer_id) for each in aborted_transactions)
    aborted: set[int] = set()
    for header, content in batches:
        while upcoming and upcoming[0][0] <= header.last_offset:
            aborted.add(upcoming.pop(0)[1])
        if header.is_control:
            marker = read_marker(content)
            if marker is not None and marker.kind is MarkerKind.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            yield content


class Reader:
    """Reads all partitions that last from the first offset on, again and again."""

    def __init__(self, world: OneBrokerWorld, name: str, *, isolation: int) -> None:
        self.name = name
        self.isolation = isolation
        self._world = world
        self._entropy = world.base.entropy.fork(name)
        self._version = self._entropy.pick((4, 6, 7, 11, 12, 13, 15, 17, 18))
        self._has_session = self._version >= SESSIONS_SINCE and self._entropy.chance(0.7)
        self._session = NO_SESSION
        self.positions = dict.fromkeys(LASTING_PLACES, 0)
        self._asked: dict[TopicPartition, int] = {}
        # Where the partitions were last seen to end for this consumer.
        self._ends = dict.fromkeys(LASTING_PLACES, -1)
        self._life = 0
        self._power_losses = 0
        self._wait_ms = self._entropy.pick((0, 50, 500, 3_000))
        self._bytes_min = self._entropy.pick((1, 1, 10_000))
        self._bytes_max = self._entropy.pick((1, 500, 5_000, 1 << 20))

    def __repr__(self) -> str:
        return f"{self.name}, Fetch v{self._version}, at {self.positions}, ends {self._ends}"

    async def run(self) -> None:
        """Until the world is calm and all producers have come to their end."""
        while not self._world.base.is_calm or self._world.producers_left:
            try:
                line = await Line.open(self._world.base.machine, self.name)
                try:
                    await self._poll(line)
                finally:
                    line.close()
            except (OSError, TimeoutError, SessionLostError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    async def _poll(self, line: Line) -> None:
        self._begin(line)
        while not self._world.base.is_calm or self._world.producers_left:
            await self._fetch(line)
            await asyncio.sleep(self._entropy.between(0, 200) / 1e3)
            if self._entropy.chance(0.02):
                self._start_over()

    async def read_all(self) -> dict[TopicPartition, dict[int, bytes]]:
        """In peace: from the first offset to the end, all that this consumer is shown."""
        line = await Line.open(self._world.base.machine, self.name)
        self._begin(line)
        self._start_over()
        self._wait_ms = 0
        shown: dict[TopicPartition, dict[int, bytes]] = {place: {} for place in LASTING_PLACES}
        while True:
            before = dict(self.positions)
            for place, values in (await self._fetch(line)).items():
                shown[place].update(values)
            if before == self.positions and before == self._ends:
                line.close()
                return shown

    def _begin(self, line: Line) -> None:
        self._session = NEW_SESSION if self._has_session else NO_SESSION
        self._asked = {}
        self._life = line.life
        if self._power_losses != line.power_losses:
            # Where it was, other batches may be now, with other bounds.
            self._power_losses = line.power_losses
            self._start_over()

    def _start_over(self) -> None:
        self.positions = dict.fromkeys(LASTING_PLACES, 0)

    # Asking

    async def _fetch(self, line: Line) -> dict[TopicPartition, dict[int, bytes]]:
        response = await line.ask(self._request(), self._version)
        if response.error_code in LOST_SESSION:
            raise SessionLostError
        assert response.error_code == ErrorCode.NONE, response
        if self._session[1] >= 0:
            session_id = response.session_id
            self._session = session_id, self._session[1] + 1 if session_id else 0
        return self._take(response)

    def _request(self) -> FetchRequest:
        asked = {
            place: position
            for place, position in self.positions.items()
            if self._session[1] <= 0 or self._asked.get(place) != position
        }
        self._asked.update(asked)
        return FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=self._bytes_min,
            isolation_level=self.isolation,
            session_id=self._session[0],
            session_epoch=self._session[1],
            topics=tuple(
                fetch.Topic(
                    topic=topic,
                    topic_id=self._world.topic_id(topic),
                    partitions=tuple(
                        wanted(each.partition, asked[each], bytes_max=self._bytes_max)
                        for each in members
                    ),
                )
                for topic, members in by_topic(asked).items()
            ),
        )

    # Taking

    def _take(self, response: Any) -> dict[TopicPartition, dict[int, bytes]]:
        by_id = self._version >= TOPIC_IDS_SINCE
        shown = {}
        hungry = []
        is_served = False
        for topic in response.responses:
            name = self._world.topic_names[topic.topic_id] if by_id else topic.topic
            for result in topic.partitions:
                place = TopicPartition(name, result.partition_index)
                before = self.positions[place]
                shown[place] = self._take_partition(place, result)
                is_served |= self.positions[place] != before or result.error_code != 0
                if not result.error_code and self.positions[place] < self._ends[place]:
                    hungry.append(place)
        assert is_served or not hungry, f"{self!r} is served nothing of {hungry}"
        return shown

    def _take_partition(self, place: TopicPartition, result: PartitionResult) -> dict[int, bytes]:
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._accept_out_of_range(place)
            return {}
        if result.error_code:
            self._world.base.accept_error(place.partition, result.error_code, self._life)
            self._asked.pop(place, None)
            return {}
        assert 0 <= result.last_stable_offset <= result.high_watermark, f"{place}: {result}"
        is_committed = self.isolation == READ_COMMITTED
        end_offset = result.last_stable_offset if is_committed else result.high_watermark
        self._ends[place] = end_offset
        position = self.positions[place]
        shown = {}
        batches = list(batches_of(result.records, position))
        aborted = result.aborted_transactions or ()
        assert is_committed or not aborted, f"{self.name}: {result}"
        for content in visible(batches, aborted):
            for record in records(content):
                assert record.value is not None
                shown[record.offset] = record.value
        next_offset = batches[-1][0].next_offset if batches else position
        assert next_offset <= max(position, end_offset), (
            f"{place}: {self.name} is served up to {next_offset}, it ends at {end_offset}"
        )
        self._world.show(
            place,
            range(position, next_offset),
            shown,
            is_committed=is_committed,
            is_current=self._power_losses == self._world.base.machine.power_losses,
        )
        self.positions[place] = next_offset
        return shown

    def _accept_out_of_range(self, place: TopicPartition) -> None:
        """Only what nobody vouched for can be gone, and only by a power loss."""
        position = self.positions[place]
        end_offset = self._world.view(place).partition.acknowledged_end
        assert self._world.base.machine.power_losses, f"offset {position} of {place} is gone"
        assert position > end_offset, f"offset {position} of {place} is gone, {end_offset} is not"
        self.positions[place] = 0

"""Consumers that read from the first offset on, again and again, and remember what they read."""

import asyncio
from collections.abc import Iterator
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import HEADER_BYTES, BatchHeader, crc_is_valid, read_header, records
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchRequest, PartitionResult
from tests.sim.broker.line import Line
from tests.sim.broker.world import MAIN_PARTITIONS, MAIN_TOPIC, World
from tests.support.broker.produce_and_fetch import fetch, wanted

TOPIC_IDS_SINCE = 13
SESSIONS_SINCE = 7
NO_SESSION = (0, -1)
NEW_SESSION = (0, 0)
LOST_SESSION = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)


class SessionLostError(Exception):
    """The broker knows the session no more."""


class Consumer:
    """Reads all partitions of the main topic, in one session or in none."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._entropy = world.entropy.fork(name)
        self._version = self._entropy.pick((4, 6, 7, 11, 12, 13, 15, 17, 18))
        self._has_session = self._version >= SESSIONS_SINCE and self._entropy.chance(0.7)
        self._session = NO_SESSION
        self._positions = [0] * MAIN_PARTITIONS
        # Up to which offset each session partition was asked for; None: not at all yet.
        self._asked: list[int | None] = [None] * MAIN_PARTITIONS
        self._life = 0
        self._power_losses = 0
        self._wait_ms = self._entropy.pick((0, 50, 500, 3_000))
        self._bytes_max = self._entropy.pick((1, 500, 5_000, 1 << 20))
        self._reply_bytes_max = self._entropy.pick((100, 20_000, 50 << 20))

    def __repr__(self) -> str:
        return f"{self.name}, Fetch v{self._version}, at {self._positions}, session {self._session}"

    async def run(self) -> None:
        """Until the world is calm and all of it was read once more from the start."""
        while not self._world.is_calm:
            await self._read_on()
        self._start_over()
        while not self._is_caught_up:
            await self._read_on()

    @property
    def _is_caught_up(self) -> bool:
        return not self._world.producers_left and all(
            position >= self._world.main_partition(index).acknowledged_end
            for index, position in enumerate(self._positions)
        )

    async def _read_on(self) -> None:
        try:
            line = await Line.open(self._world.machine, self.name)
            try:
                await self._poll_until_done(line)
            finally:
                line.close()
        except (OSError, TimeoutError, SessionLostError):
            await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    async def _poll_until_done(self, line: Line) -> None:
        was_calm = self._world.is_calm
        self._new_session()
        self._life = line.life
        if self._power_losses != line.power_losses:
            # Where it was, other batches may be now, with other bounds.
            self._power_losses = line.power_losses
            self._start_over()
        while not (self._is_caught_up if was_calm else self._world.is_calm):
            reply = line.send(self._request(), self._version)
            if self._entropy.chance(0.2):
                # Quick to answer, and yet it must wait for its turn.
                line.send(ApiVersionsRequest(), 0)
            response = await line.wait_for(reply)
            if response.error_code in LOST_SESSION:
                raise SessionLostError
            assert response.error_code == ErrorCode.NONE, response
            self._take(response)
            await asyncio.sleep(self._entropy.between(0, 20 if was_calm else 200) / 1e3)
            if not was_calm and self._entropy.chance(0.02):
                self._start_over()

    def _start_over(self) -> None:
        self._positions = [0] * MAIN_PARTITIONS

    # Asking

    def _new_session(self) -> None:
        self._session = NEW_SESSION if self._has_session else NO_SESSION
        self._asked = [None] * MAIN_PARTITIONS

    def _request(self) -> FetchRequest:
        partitions = [
            wanted(index, position, bytes_max=self._bytes_max)
            for index, position in enumerate(self._positions)
            if self._session[1] <= 0 or self._asked[index] != position
        ]
        for asked in partitions:
            self._asked[asked.partition] = asked.fetch_offset
        return fetch(
            self._world.main_id if self._version >= TOPIC_IDS_SINCE else MAIN_TOPIC,
            *partitions,
            wait_ms=self._wait_ms,
            bytes_max=self._reply_bytes_max,
            session=self._session,
        )

    # Taking

    def _take(self, response: Any) -> None:
        results = [each for topic in response.responses for each in topic.partitions]
        if self._session[1] >= 0:
            session_id = response.session_id
            epoch = self._session[1] + 1 if session_id else 0
            self._session = session_id, epoch
        is_served = [self._take_partition(result) for result in results]
        hungry = [
            result
            for result in results
            if not result.error_code
            and self._positions[result.partition_index] < result.high_watermark
        ]
        errors = [result for result in results if result.error_code]
        assert any(is_served) or errors or not hungry, (
            f"{self.name} at {self._positions} is served nothing below the high watermark: {hungry}"
        )

    def _take_partition(self, result: PartitionResult) -> bool:
        """Whether it gave anything."""
        index = result.partition_index
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._accept_out_of_range(index)
            return True
        if result.error_code:
            self._world.accept_error(index, result.error_code, self._life)
            # An error is told until the partition is read again.
            self._asked[index] = None
            return False
        history = self._world.main_partition(index)
        is_current = self._power_losses == self._world.machine.power_losses
        is_served = False
        for header, content in batches_of(result.records, self._positions[index]):
            assert header.last_offset < result.high_watermark, (
                f"offset {header.last_offset} of {index} was served, the high watermark is"
                f" {result.high_watermark}"
            )
            for record in records(content):
                assert record.value is not None
                history.see(record.offset, record.value, is_current=is_current)
            self._positions[index] = header.next_offset
            is_served = True
        return is_served

    def _accept_out_of_range(self, index: int) -> None:
        """Only what nobody vouched for can be gone, and only by a power loss."""
        position = self._positions[index]
        assert self._world.machine.power_losses, f"offset {position} of {index} is out of range"
        history = self._world.main_partition(index)
        assert position > history.acknowledged_end, (
            f"offset {position} of {index} is out of range, {history.acknowledged_end} is not"
        )
        self._positions[index] = 0


def batches_of(content: Any, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches of a partition's reply: from `offset` on, one after another, sound."""
    view = memoryview(content)
    position = 0
    while len(view) - position >= HEADER_BYTES:
        header = read_header(view, position)
        batch = view[position : position + header.size]
        if len(batch) < header.size:
            return
        assert crc_is_valid(batch, header), f"a damaged batch at {header.base_offset}"
        assert header.base_offset == offset, f"a batch at {header.base_offset}, not at {offset}"
        yield header, batch
        offset = header.next_offset
        position += header.size

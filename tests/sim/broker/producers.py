"""Producers that do not give up: what was not acknowledged is sent again, as it was."""

import asyncio
from collections import deque
from dataclasses import dataclass

from ottla.errors import ErrorCode
from ottla.protocol.batch import Record, build
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionResult, ProduceRequest
from tests.sim.broker.history import PartitionHistory, Sent
from tests.sim.broker.line import Line
from tests.sim.broker.world import MAIN_TOPIC, World
from tests.support.broker.produce_and_fetch import only, produce

UNACKNOWLEDGED_MAX = 5
RECORDS_A_BATCH_MAX = 4
TOPIC_IDS_SINCE = 13
NO_PRODUCER = -1
INIT_PRODUCER_ID_VERSION = 4
# The disk may refuse for a while; what was sent behind a refused batch is out of order then.
PASSING = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


class TryAgainError(Exception):
    """The batch was not taken, which may be otherwise the next time."""


@dataclass(slots=True)
class Batch:
    """What is sent until it is acknowledged; the same bytes each time."""

    values: list[bytes]
    content: bytes


class Producer:
    """Sends to one partition until the world is calm, then until all of it is acknowledged."""

    def __init__(self, world: World, name: str, index: int, *, is_idempotent: bool) -> None:
        self.name = name
        self._world = world
        self._entropy = world.entropy.fork(name)
        self._index = index
        self._is_idempotent = is_idempotent
        self._history: PartitionHistory = world.main_partition(index)
        self._producer_id = NO_PRODUCER
        self._next_number = 0
        self._unacknowledged: deque[Batch] = deque()
        # A producer that nobody knows may begin with any sequence: the first batch goes alone.
        self._window = 1
        self._version = self._entropy.pick((3, 7, 9, 12, 13))
        self._acks = self._entropy.pick((1, -1, -1))

    def __repr__(self) -> str:
        return f"{self.name}, Produce v{self._version}, {len(self._unacknowledged)} under way"

    async def run(self) -> None:
        while not self._is_done:
            try:
                await self._work(await Line.open(self._world.machine, self.name))
            except (OSError, TimeoutError, TryAgainError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)
        self._world.producers_left -= 1

    @property
    def _is_done(self) -> bool:
        return self._world.is_calm and not self._unacknowledged

    async def _work(self, line: Line) -> None:
        """Until the connection or the broker gives a reason to begin again."""
        try:
            if self._is_idempotent and self._producer_id == NO_PRODUCER:
                self._producer_id = await self._take_id(line)
            under_way: deque[asyncio.Future[object]] = deque()
            while not self._is_done:
                while len(under_way) < self._window and self._has_more(len(under_way)):
                    batch = self._batch(len(under_way))
                    under_way.append(line.send(self._request(batch.content), self._version))
                    if self._entropy.chance(0.3):
                        self._send_and_forget(line)
                    await self._pause()
                reply = await line.wait_for(under_way.popleft())
                self._take_reply(only(reply))
        finally:
            line.close()

    async def _take_id(self, line: Line) -> int:
        response = await line.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            INIT_PRODUCER_ID_VERSION,
        )
        if response.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            raise TryAgainError
        assert response.error_code == ErrorCode.NONE, response
        return self._world.history.take_producer_id(response.producer_id)

    def _has_more(self, under_way: int) -> bool:
        return under_way < len(self._unacknowledged) or not self._world.is_calm

    def _batch(self, position: int) -> Batch:
        if position == len(self._unacknowledged):
            self._unacknowledged.append(self._new_batch())
        return self._unacknowledged[position]

    def _new_batch(self) -> Batch:
        count = self._entropy.between(1, RECORDS_A_BATCH_MAX)
        first = self._next_number
        values = [self._new_value(self.name, not self._is_idempotent) for _ in range(count)]
        return Batch(values, self._build(values, first if self._is_idempotent else -1))

    def _new_value(self, sender: str, may_repeat: bool) -> bytes:
        number = self._next_number
        self._next_number += 1
        padding = b"." * self._entropy.pick((0, 0, 10, 200, 1_500))
        value = f"{sender}-{number}-".encode() + padding
        self._history.send(value, Sent(sender, number, may_repeat))
        return value

    def _build(self, values: list[bytes], sequence: int) -> bytes:
        now_ms = self._world.machine.clock.wall_ms()
        return bytes(
            build(
                [Record(offset, now_ms, None, value) for offset, value in enumerate(values)],
                producer_id=self._producer_id,
                producer_epoch=0 if self._is_idempotent else -1,
                base_sequence=sequence,
            )
        )

    def _send_and_forget(self, line: Line) -> None:
        """Something in between that must not be answered, and that may be lost."""
        if self._is_idempotent:
            return
        value = self._new_value(f"{self.name}-forgetful", may_repeat=False)
        request = self._request(self._build([value], -1), acks=0)
        line.send(request, self._version, is_answered=False)

    def _request(self, content: bytes, acks: int | None = None) -> ProduceRequest:
        topic = self._world.main_id if self._version >= TOPIC_IDS_SINCE else MAIN_TOPIC
        acks = self._acks if acks is None else acks
        return produce(topic, content, partition=self._index, acks=acks)

    def _take_reply(self, result: PartitionResult) -> None:
        if result.error_code in PASSING:
            assert self._is_idempotent or result.error_code == PASSING[0], result
            raise TryAgainError
        assert result.error_code == ErrorCode.NONE, f"{self.name}: {result}"
        batch = self._unacknowledged.popleft()
        self._history.acknowledge(result.base_offset, batch.values)
        if self._is_idempotent:
            self._window = self._entropy.between(1, UNACKNOWLEDGED_MAX)

    async def _pause(self) -> None:
        if not self._world.is_calm:
            await asyncio.sleep(self._entropy.between(0, 200) / 1e3)

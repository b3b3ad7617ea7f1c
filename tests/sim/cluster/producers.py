"""Producers that follow leaders and do not give up: a batch is sent until it is acknowledged."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.acks import Acks
from ottla.protocol.batch import Record, build
from ottla.protocol.compression import Codec
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionResult, ProduceRequest
from tests.sim.broker.history import PartitionHistory, Sent
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.routing import STALE_METADATA, Routing, TryAgain
from tests.sim.cluster.world import MAIN_TOPIC, World
from tests.support.broker.produce_and_fetch import only, produce

UNACKNOWLEDGED_MAX = 3
RECORDS_PER_BATCH_MAX = 4
TOPIC_IDS_SINCE = 13
NO_PRODUCER = -1
INIT_PRODUCER_ID_VERSION = 4
# A partition's log may be offline or full, its ISR too small; a batch behind a refused one is out
# of order then.
PASSING = (
    *STALE_METADATA,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)
# The broker has no producer ids yet, or is none to ask.
NO_ID_YET = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sent until it is acknowledged; the same bytes each time."""

    values: list[bytes]
    content: bytes


class Producer:
    """Sends to one partition until the world is calm, then until all of it is acknowledged."""

    def __init__(self, world: World, name: str, index: int, *, is_idempotent: bool) -> None:
        self.name = name
        self._world = world
        self._entropy = world.entropy.fork(name)
        self._routing = Routing(world, name, self._entropy.fork("routing"))
        self._index = index
        self._is_idempotent = is_idempotent
        self._history: PartitionHistory = world.main_partition(index)
        self._producer_id = NO_PRODUCER
        self._next_number = 0
        self._unacknowledged: deque[Batch] = deque()
        # A producer that nobody knows may begin with any sequence: the first batch goes alone.
        self._window = 1
        self._version = self._entropy.pick((7, 9, 12, 13))
        self._acks = self._entropy.pick((Acks.LEADER, Acks.ALL, Acks.ALL))

    def __repr__(self) -> str:
        return f"{self.name}, partition {self._index}, {len(self._unacknowledged)} under way"

    async def run(self) -> None:
        while not self._is_done:
            try:
                await self._work()
            except (OSError, TimeoutError, TryAgain):
                self._routing.forget(self._world.main_id, self._index)
                self._routing.close()
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)
        self._routing.close()
        self._world.producers_left -= 1

    @property
    def _is_done(self) -> bool:
        return self._world.is_calm and not self._unacknowledged

    async def _work(self) -> None:
        """Until a connection or a broker gives a reason to look for the leader again."""
        if self._is_idempotent and self._producer_id == NO_PRODUCER:
            self._producer_id = await self._take_id()
        _, line = await self._routing.leader(MAIN_TOPIC, self._world.main_id, self._index)
        under_way: deque[asyncio.Future[Any]] = deque()
        while not self._is_done:
            while len(under_way) < self._window and self._has_more(len(under_way)):
                batch = self._batch(len(under_way))
                under_way.append(line.line.send(self._request(batch.content), self._version))
                if self._entropy.chance(0.3):
                    self._send_and_forget(line)
                await self._pause()
            self._take_reply(only(await line.line.wait_for(under_way.popleft())))

    async def _take_id(self) -> int:
        line = await self._routing.any_broker()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await line.line.ask(request, INIT_PRODUCER_ID_VERSION)
        if response.error_code in NO_ID_YET:
            raise TryAgain
        assert response.error_code == ErrorCode.NONE, response
        return self._world.history.take_producer_id(response.producer_id)

    def _has_more(self, under_way: int) -> bool:
        return under_way < len(self._unacknowledged) or not self._world.is_calm

    def _batch(self, position: int) -> Batch:
        if position == len(self._unacknowledged):
            self._unacknowledged.append(self._new_batch())
        return self._unacknowledged[position]

    def _new_batch(self) -> Batch:
        count = self._entropy.between(1, RECORDS_PER_BATCH_MAX)
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
        now_ms = self._world.cluster.wall_ms()
        return bytes(
            build(
                [Record(offset, now_ms, None, value) for offset, value in enumerate(values)],
                codec=self._entropy.pick(tuple(Codec)),
                producer_id=self._producer_id,
                producer_epoch=0 if self._is_idempotent else -1,
                base_sequence=sequence,
            )
        )

    def _send_and_forget(self, line: BrokerLine) -> None:
        """A request in between that must not be answered, and may be lost."""
        if self._is_idempotent:
            return
        value = self._new_value(f"{self.name}-forgetful", may_repeat=False)
        request = self._request(self._build([value], -1), acks=Acks.NONE)
        line.line.send(request, self._version, is_answered=False)

    def _request(self, content: bytes, acks: int | None = None) -> ProduceRequest:
        topic = self._world.main_id if self._version >= TOPIC_IDS_SINCE else MAIN_TOPIC
        acks = self._acks if acks is None else acks
        return produce(topic, content, partition=self._index, acks=acks)

    def _take_reply(self, result: PartitionResult) -> None:
        if result.error_code in PASSING:
            raise TryAgain
        if self._is_idempotent and result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise TryAgain
        assert result.error_code == ErrorCode.NONE, f"{self.name}: {result}"
        batch = self._unacknowledged.popleft()
        # Of several replicas only those in sync vouch for a batch.
        if self._acks == Acks.ALL or self._world.shape.replication_factor == 1:
            self._history.acknowledge(result.base_offset, batch.values)
        if self._is_idempotent:
            self._window = self._entropy.between(1, UNACKNOWLEDGED_MAX)

    async def _pause(self) -> None:
        if not self._world.is_calm:
            await asyncio.sleep(self._entropy.between(0, 400) / 1e3)

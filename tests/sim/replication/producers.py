"""Producers of one partition, which send a batch until it is acknowledged.

Idempotent ones have several requests under way, and always ask for `acks=all`.
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.acks import Acks
from ottla.protocol.batch import Record, build
from ottla.protocol.compression import Codec
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionResult, ProduceRequest
from tests.sim.broker.history import PartitionHistory, Sent
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.producers import (
    INIT_PRODUCER_ID_VERSION,
    NO_ID_YET,
    NO_PRODUCER,
    PASSING,
    RECORDS_PER_BATCH_MAX,
    TOPIC_IDS_SINCE,
    Batch,
)
from tests.sim.cluster.routing import Routing, TryAgain
from tests.sim.replication.world import ReplicationWorld, Target
from tests.support.broker.produce_and_fetch import only, produce

WINDOW_MAX = 4
TIMEOUT_MS = 3_000
# A producer whose batches were lost hears these for ever, and begins anew.
SEQUENCE_LOST = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


class Kind(Enum):
    """What a producer asks for. Only the first two are promised anything."""

    IDEMPOTENT = "idempotent"
    ALL = "acks=all"
    LEADER = "acks=1"

    @property
    def acks(self) -> Acks:
        return Acks.LEADER if self is Kind.LEADER else Acks.ALL


class UnderWay(NamedTuple):
    """A request, and the number of excuses of its partition when it was sent."""

    reply: asyncio.Future[Any]
    excuses: int


class Producer:
    """Sends to one partition until the world is calm, then until all of it is acknowledged."""

    def __init__(self, world: ReplicationWorld, name: str, target: Target, kind: Kind) -> None:
        self.name = name
        self.acknowledged = 0
        self._world = world
        self._entropy = world.entropy.fork(name)
        self._routing = Routing(world, name, self._entropy.fork("routing"))
        self._target = target
        self._kind = kind
        self._history: PartitionHistory = world.partition(target)
        self._version = self._entropy.pick((7, 9, 12, 13))
        self._restarts = 0
        self._excuses = 0
        self._begin_anew()

    def __repr__(self) -> str:
        return f"{self.name}, {self._kind.value}, {self._target}, {len(self._unacknowledged)} open"

    def _begin_anew(self) -> None:
        """As another producer. What was not acknowledged is not sent again."""
        self._sender = f"{self.name}.{self._restarts}"
        self._producer_id = NO_PRODUCER
        self._next_number = 0
        self._unacknowledged: deque[Batch] = deque()
        # A producer that nobody knows may begin with any sequence: the first batch goes alone.
        self._window = 1
        self._excuses = self._world.excuses(self._target)

    async def run(self) -> None:
        while not self._is_done:
            try:
                await self._work()
            except (OSError, TimeoutError, TryAgain):
                self._routing.forget(*self._target.key)
                self._routing.close()
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)
        self._routing.close()
        self._world.producers_left -= 1

    @property
    def _is_idempotent(self) -> bool:
        return self._kind is Kind.IDEMPOTENT

    @property
    def _is_done(self) -> bool:
        return self._world.is_calm and not self._unacknowledged

    async def _work(self) -> None:
        """Until a connection or a broker gives a reason to look for the leader again."""
        if self._is_idempotent and self._producer_id == NO_PRODUCER:
            self._producer_id = await self._take_id()
        target = self._target
        _, line = await self._routing.leader(target.topic, target.topic_id, target.index)
        under_way: deque[UnderWay] = deque()
        while not self._is_done:
            while len(under_way) < self._window and self._has_more(len(under_way)):
                under_way.append(self._send(line, self._batch(len(under_way))))
                if self._entropy.chance(0.1):
                    self._send_and_forget(line)
                await self._pause()
            sent = under_way.popleft()
            self._take_reply(only(await line.line.wait_for(sent.reply)), sent.excuses)

    def _send(self, line: BrokerLine, batch: Batch) -> UnderWay:
        reply = line.line.send(self._request(batch.content), self._version)
        return UnderWay(reply, self._world.excuses(self._target))

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
        values = [self._new_value(self._sender, not self._is_idempotent) for _ in range(count)]
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
        value = self._new_value(f"{self._sender}-forgetful", may_repeat=False)
        request = self._request(self._build([value], -1), acks=Acks.NONE)
        line.line.send(request, self._version, is_answered=False)

    def _request(self, content: bytes, acks: Acks | None = None) -> ProduceRequest:
        target = self._target
        topic = target.topic_id if self._version >= TOPIC_IDS_SINCE else target.topic
        acks = self._kind.acks if acks is None else acks
        return produce(topic, content, partition=target.index, acks=acks, timeout_ms=TIMEOUT_MS)

    def _take_reply(self, result: PartitionResult, excuses: int) -> None:
        if result.error_code in PASSING:
            raise TryAgain
        if self._is_idempotent and result.error_code in SEQUENCE_LOST:
            if self._excuses != self._world.excuses(self._target):
                self._restarts += 1
                self._begin_anew()
            raise TryAgain
        assert result.error_code == ErrorCode.NONE, f"{self.name}: {result}"
        batch = self._unacknowledged.popleft()
        if self._kind.acks == Acks.ALL and excuses == self._world.excuses(self._target):
            self._history.acknowledge(result.base_offset, batch.values)
            end_offset = result.base_offset + len(batch.values)
            self._world.oracle.acknowledged(self._target.key, end_offset)
        self.acknowledged += 1
        if self._is_idempotent:
            self._window = self._entropy.between(1, WINDOW_MAX)

    async def _pause(self) -> None:
        if not self._world.is_calm:
            await asyncio.sleep(self._entropy.between(0, 200) / 1e3)

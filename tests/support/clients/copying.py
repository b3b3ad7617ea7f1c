"""Copies a topic in transactions (consume, transform, produce) with one of the clients.

Run as a process, which a test may kill: it goes on from the offsets that its last transaction has
committed. Every `ABORTED_EVERY`-th transaction is aborted first, with records that nobody may read,
and then done again.
"""

import asyncio
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.support.clients.client import WAIT_S
from tests.support.clients.kafka_python import (
    KafkaConsumer,
    KafkaError,
    KafkaProducer,
    OffsetAndMetadata,
)
from tests.support.clients.kafka_python import TopicPartition as KafkaPythonPartition

PER_TRANSACTION = 750
ABORTED_EVERY = 4
# What a committed copy and an aborted one have before their value.
COPIED, ABORTED = b"copied ", b"aborted "
POLL_S = 0.05
WAIT_MS = int(WAIT_S * 1000)
# Longer than a copy takes: nobody is fenced because the machine is slow.
TRANSACTION_TIMEOUT_MS = 600_000
RETRY_MS = 20
SESSION_MS = 6_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `records` per partition. The transactional id is the group's name as well."""

    servers: str
    source: str
    target: str
    transactional_id: str
    partitions: int
    records: int


class Read(NamedTuple):
    partition: int
    offset: int
    value: bytes


class AbortError(Exception):
    """The transaction has to be aborted, and can be done again."""


class Reassigned(Exception):
    """The consumer got its partitions again: others may have read them in between."""


class Copier(ABC):
    """A consumer and a transactional producer. Records go to the partition that they came from."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy

    @abstractmethod
    def committed(self) -> dict[int, int]:
        """The offset of each partition at which the copy goes on. The consumer reads from there."""

    @abstractmethod
    def read(self, records_max: int) -> Sequence[Read]:
        """The next records; none if there are none for a while. Reassigned."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, partition: int, value: bytes) -> None: ...

    @abstractmethod
    def send_offsets(self, positions: Mapping[int, int]) -> None:
        """Or AbortError."""

    @abstractmethod
    def flush(self) -> None:
        """All that was sent is in the log. An abort forgets what is not."""

    @abstractmethod
    def commit(self) -> None:
        """Or AbortError."""

    @abstractmethod
    def abort(self) -> None: ...


def run(copier: Copier) -> None:
    """Copies to the end. Prints a line after each committed transaction."""
    copy = copier.copy
    positions = copier.committed()
    number = 0
    while sum(positions.values()) < copy.records * copy.partitions:
        left = copy.records * copy.partitions - sum(positions.values())
        try:
            batch = _read(copier, min(PER_TRANSACTION, left))
        except Reassigned:
            positions = copier.committed()
            continue
        following = positions | {each.partition: each.offset + 1 for each in batch}
        number += 1
        if number % ABORTED_EVERY == 0:
            copier.begin()
            _fill(copier, batch, ABORTED, following)
            copier.flush()
            copier.abort()
        while not _try(copier, batch, following):
            copier.abort()
            print("aborted", flush=True)
        positions = following
        print(f"copied {sum(positions.values())}", flush=True)


def _read(copier: Copier, amount: int) -> list[Read]:
    batch: list[Read] = []
    while len(batch) < amount:
        batch += copier.read(amount - len(batch))
    return batch


def _try(copier: Copier, batch: Sequence[Read], following: Mapping[int, int]) -> bool:
    copier.begin()
    try:
        _fill(copier, batch, COPIED, following)
        copier.commit()
    except AbortError:
        return False
    return True


def _fill(
    copier: Copier, batch: Sequence[Read], prefix: bytes, following: Mapping[int, int]
) -> None:
    for each in batch:
        copier.send(each.partition, prefix + each.value)
    copier.send_offsets(following)


class LibrdkafkaCopier(Copier):
    """A member of its group."""

    def __init__(self, copy: Copy) -> None:
        super().__init__(copy)
        quick = {
            "bootstrap.servers": copy.servers,
            "reconnect.backoff.ms": RETRY_MS,
            "reconnect.backoff.max.ms": 100,
            # Else it forgets a broker that is away, and with it whatever waits for that broker:
            # calls never return (librdkafka's issues 5456 and 5511).
            "metadata.recovery.strategy": "none",
            "log_level": 2,
        }
        self._consumer = Consumer(
            quick
            | {
                "group.id": copy.transactional_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                # A copier that was killed is missed that long.
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": SESSION_MS // 10,
            }
        )
        self._producer = Producer(
            quick
            | {
                "transactional.id": copy.transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": WAIT_MS,
                "retry.backoff.ms": RETRY_MS,
                "linger.ms": 1,
            }
        )
        self._producer.init_transactions(WAIT_S)
        self._given: dict[int, int] = {}
        # What was read with the news that partitions are given.
        self._early: list[Message] = []
        self._consumer.subscribe([copy.source], on_assign=self._on_assign)
        while not self._given:
            self._poll(POLL_S)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        found = consumer.committed(partitions, WAIT_S)
        self._given = {each.partition: max(each.offset, 0) for each in found}
        self._early = []
        given = [TopicPartition(self.copy.source, *each) for each in self._given.items()]
        consumer.assign(given)

    def _poll(self, timeout_s: float) -> bool:
        """One at a time: whatever comes with the news is of the new assignment."""
        message = self._consumer.poll(timeout_s)
        if message is None or message.error() is not None:
            return False
        self._early.append(message)
        return True

    def committed(self) -> dict[int, int]:
        positions, self._given = self._given, {}
        return positions

    def read(self, records_max: int) -> list[Read]:
        if self._poll(POLL_S):
            while len(self._early) < records_max and self._poll(0):
                pass
        if self._given:
            raise Reassigned
        found, self._early = self._early, []
        return [Read(each.partition(), each.offset(), each.value()) for each in found]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        self._producer.produce(self.copy.target, value, partition=partition)

    def send_offsets(self, positions: Mapping[int, int]) -> None:
        offsets = [TopicPartition(self.copy.source, *each) for each in positions.items()]
        metadata = self._consumer.consumer_group_metadata()
        self._trying(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, WAIT_S))

    def flush(self) -> None:
        self._producer.flush(WAIT_S)

    def commit(self) -> None:
        self._trying(lambda: self._producer.commit_transaction(WAIT_S))

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_S)

    def _trying(self, act: Any) -> None:
        while True:
            try:
                act()
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                if error.args[0].txn_requires_abort():
                    raise AbortError from error
                raise
            return


class KafkaPythonCopier(Copier):
    """Its partitions are assigned by hand."""

    def __init__(self, copy: Copy) -> None:
        super().__init__(copy)
        quick = {
            "bootstrap_servers": copy.servers,
            "reconnect_backoff_ms": RETRY_MS,
            "reconnect_backoff_max_ms": 100,
            "retry_backoff_ms": RETRY_MS,
        }
        self._consumer = KafkaConsumer(
            **quick,
            group_id=copy.transactional_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self._producer = KafkaProducer(
            **quick,
            transactional_id=copy.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_block_ms=WAIT_MS,
            delivery_timeout_ms=WAIT_MS,
            linger_ms=1,
        )
        _keep_requests(self._producer)
        self._producer.init_transactions()

    def committed(self) -> dict[int, int]:
        given = [KafkaPythonPartition(self.copy.source, at) for at in range(self.copy.partitions)]
        self._consumer.assign(given)
        found = {each.partition: self._consumer.committed(each) or 0 for each in given}
        for each in given:
            self._consumer.seek(each, found[each.partition])
        return found

    def read(self, records_max: int) -> list[Read]:
        polled = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=records_max)
        return [
            Read(each.partition, each.offset, each.value)
            for records in polled.values()
            for each in records
        ]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, partition: int, value: bytes) -> None:
        self._producer.send(self.copy.target, value, partition=partition)

    def send_offsets(self, positions: Mapping[int, int]) -> None:
        offsets = {
            KafkaPythonPartition(self.copy.source, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in positions.items()
        }
        self._producer.send_offsets_to_transaction(offsets, self.copy.transactional_id)

    def flush(self) -> None:
        self._producer.flush(WAIT_S)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()


def _keep_requests(producer: KafkaProducer) -> None:
    """It forgets a transactional request whose coordinator cannot be reached at once, and waits
    for its answer for ever. A coordinator that is not ready in time makes it try again.
    """
    client = producer._sender._client
    await_ready = client.await_ready

    def is_ready(*asked: Any, **said: Any) -> bool:
        try:
            return bool(await_ready(*asked, **said))
        except KafkaError:
            return False

    client.await_ready = is_ready


class AioKafkaCopier(Copier):
    """Its partitions are assigned by hand."""

    def __init__(self, copy: Copy) -> None:
        super().__init__(copy)
        self._runner = asyncio.Runner()
        self._wait(self._start())

    def _wait(self, coming: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coming)

    async def _start(self) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self.copy.servers,
            group_id=self.copy.transactional_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            retry_backoff_ms=RETRY_MS,
        )
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self.copy.servers,
            transactional_id=self.copy.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            retry_backoff_ms=RETRY_MS,
            linger_ms=1,
        )
        await self._consumer.start()
        await self._producer.start()

    def committed(self) -> dict[int, int]:
        return self._wait(self._committed())

    async def _committed(self) -> dict[int, int]:
        given = [AioPartition(self.copy.source, each) for each in range(self.copy.partitions)]
        self._consumer.assign(given)
        found = {each.partition: await self._consumer.committed(each) or 0 for each in given}
        for each in given:
            self._consumer.seek(each, found[each.partition])
        return found

    def read(self, records_max: int) -> list[Read]:
        polled = self._wait(
            self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=records_max)
        )
        return [
            Read(each.partition, each.offset, each.value or b"")
            for records in polled.values()
            for each in records
        ]

    def begin(self) -> None:
        self._sending: list[Any] = []
        self._wait(self._producer.begin_transaction())

    def send(self, partition: int, value: bytes) -> None:
        self._sending.append((partition, value))

    def send_offsets(self, positions: Mapping[int, int]) -> None:
        self._wait(self._send_all(positions))

    async def _send_all(self, positions: Mapping[int, int]) -> None:
        coming = [
            await self._producer.send(self.copy.target, value, partition=partition)
            for partition, value in self._sending
        ]
        offsets = {AioPartition(self.copy.source, at): offset for at, offset in positions.items()}
        await self._producer.send_offsets_to_transaction(offsets, self.copy.transactional_id)
        await asyncio.gather(*coming)

    def flush(self) -> None:
        self._wait(self._producer.flush())

    def commit(self) -> None:
        self._wait(self._producer.commit_transaction())

    def abort(self) -> None:
        self._wait(self._producer.abort_transaction())


KINDS: dict[str, type[Copier]] = {
    "librdkafka": LibrdkafkaCopier,
    "kafka-python": KafkaPythonCopier,
    "aiokafka": AioKafkaCopier,
}


def main() -> None:
    kind, servers, source, target, transactional_id, partitions, records = sys.argv[1:]
    # Their warnings while the broker is away.
    logging.disable(logging.CRITICAL)
    copy = Copy(servers, source, target, transactional_id, int(partitions), int(records))
    run(KINDS[kind](copy))
    # Nobody waits for the tasks and the connections of a client.
    os._exit(0)


if __name__ == "__main__":
    main()

"""A consumer of librdkafka in a group, with its rebalances written to the history."""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.chaos.clients.librdkafka import COMMON, record_of
from tests.cluster.chaos.clients.process import Client
from tests.cluster.chaos.history import (
    Assigned,
    OffsetsCommitted,
    Partition,
    Polled,
    Record,
    Revoked,
)

POLL_S = 0.2
CLASSIC: dict[str, Any] = {
    "partition.assignment.strategy": "range",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 1_000,
}


class GroupConsumer:
    """`on_revoke` is called before partitions are given up, unless they are lost already."""

    def __init__(self, client: Client, on_revoke: Callable[[], None] = lambda: None) -> None:
        self._client = client
        self._on_revoke = on_revoke
        options = client.options
        settings: dict[str, Any] = {
            "bootstrap.servers": options.servers,
            "client.id": options.name,
            "group.id": options.group,
            "group.protocol": options.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
        if options.protocol == "classic":
            settings |= CLASSIC
        self.consumer = Consumer(COMMON | settings)
        self._batch: list[Record] = []
        self.consumer.subscribe(
            list(options.topics),
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def poll(self, records_max: int) -> list[Record]:
        """The next records, in the history already; none if there are none for a while.

        One at a time: records of an assignment that has ended meanwhile are not among them.
        """
        self._batch = []
        timeout_s = POLL_S
        while len(self._batch) < records_max:
            message = self.consumer.poll(timeout_s)
            if message is None:
                break
            if message.error() is None:
                self._batch.append(record_of(message))
                timeout_s = 0.0
        batch = self._batch
        self._write_batch()
        return batch

    def _write_batch(self) -> None:
        if self._batch:
            group = self._client.options.group
            self._client.history.write(Polled, group=group, records=tuple(self._batch))
        self._batch = []

    def commit(self, positions: Mapping[Partition, int]) -> bool:
        """Whether the group knows them now."""
        offsets = [TopicPartition(*where, offset) for where, offset in positions.items()]
        try:
            committed = self.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            # The outcome is unknown, or the member has to join again; the next poll does.
            return False
        done = {Partition(each.topic, each.partition) for each in committed if each.error is None}
        self.committed({each: positions[each] for each in done})
        return len(done) == len(positions)

    def committed(self, positions: Mapping[Partition, int]) -> None:
        group = self._client.options.group
        self._client.history.write(OffsetsCommitted, group=group, offsets=tuple(positions.items()))

    def go_back(self, positions: Mapping[Partition, int]) -> None:
        """Reads again from there the partitions that it still has. KafkaException."""
        owned = {Partition(each.topic, each.partition) for each in self.consumer.assignment()}
        for partition in owned & positions.keys():
            self.consumer.seek(TopicPartition(*partition, positions[partition]))
            self._note(Assigned, [TopicPartition(*partition)])

    def close(self) -> None:
        self.consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note(Assigned, partitions)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._write_batch()
        self._on_revoke()
        self._note(Revoked, partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._write_batch()
        self._note(Revoked, partitions)

    def _note(self, kind: type[Assigned] | type[Revoked], partitions: list[TopicPartition]) -> None:
        found = tuple(Partition(each.topic, each.partition) for each in partitions)
        self._client.history.write(kind, group=self._client.options.group, partitions=found)

"""Operations of tests on topics, outside of Spark."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

WAIT_S = 120.0
LOOK_S = 0.02


def wait_until(is_so: Callable[[], bool]) -> None:
    """Returns once it is so."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(LOOK_S)


@contextmanager
def delivering(servers: str, **settings: str) -> Iterator[Producer]:
    """A producer; all its records are in their logs at the end of the block."""
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, _record: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer({"bootstrap.servers": servers, "on_delivery": told} | settings)
    yield producer
    assert producer.flush(WAIT_S) == 0
    assert refused == []


class Topics:
    """The topics of one cluster, through a client that others wrote.

    A broker of Kafka's hears of a change a moment after it was made: whoever changes something here
    waits until the broker knows.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    def make(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = NewTopic(name, partitions, 1, config=dict(configs or {}))
        self._admin.create_topics([wanted])[name].result(WAIT_S)
        wait_until(lambda: self._led_partitions(name) == partitions)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(WAIT_S)
        wait_until(lambda: self._led_partitions(name) is None)

    def grow(self, name: str, partitions: int) -> None:
        wanted = NewPartitions(name, partitions)
        self._admin.create_partitions([wanted])[name].result(WAIT_S)
        wait_until(lambda: self._led_partitions(name) == partitions)

    def delete_records(self, name: str, partition: int, before: int) -> None:
        wanted = TopicPartition(name, partition, before)
        self._admin.delete_records([wanted])[wanted].result(WAIT_S)

    def send(
        self,
        name: str,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        timestamp_ms: int = 0,
        headers: list[tuple[str, bytes | None]] | None = None,
        compression: str = "none",
    ) -> None:
        """Appends records in this order; without a timestamp the producer gives the present."""
        settings = {"compression.type": compression, "linger.ms": "5"}
        with delivering(self.servers, **settings) as producer:
            for value in values:
                producer.produce(
                    name,
                    value,
                    key=key,
                    partition=partition,
                    timestamp=timestamp_ms,
                    headers=headers,
                )

    def send_keyed(
        self, name: str, records: Iterable[tuple[bytes, bytes]], *, timestamp_ms: int
    ) -> None:
        """Appends values under keys to partition 0, all of one time."""
        with delivering(self.servers, **{"linger.ms": "5"}) as producer:
            for key, value in records:
                producer.produce(name, value, key=key, partition=0, timestamp=timestamp_ms)

    def _led_partitions(self, name: str) -> int | None:
        """The number of partitions with a leader; None if the topic does not exist."""
        # Metadata of all topics: a request for one could create it.
        found = self._admin.list_topics(timeout=WAIT_S).topics.get(name)
        if found is None:
            return None
        return sum(each.leader >= 0 for each in found.partitions.values())


def numbered(first: int, end: int) -> list[bytes | None]:
    """Values that tell their own order."""
    return [b"%d" % number for number in range(first, end)]

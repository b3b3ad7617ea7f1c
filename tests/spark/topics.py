"""What tests do to topics from outside of Spark."""

from collections.abc import Iterable, Mapping

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

WAIT_S = 60.0


class Topics:
    """The topics of one cluster, through a client that others wrote."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    def make(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = NewTopic(name, partitions, 1, config=dict(configs or {}))
        self._admin.create_topics([wanted])[name].result(WAIT_S)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(WAIT_S)

    def grow(self, name: str, partitions: int) -> None:
        wanted = NewPartitions(name, partitions)
        self._admin.create_partitions([wanted])[name].result(WAIT_S)

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
        producer = Producer(
            {"bootstrap.servers": self.servers, "compression.type": compression, "linger.ms": 5}
        )
        for value in values:
            producer.produce(
                name,
                value,
                key=key,
                partition=partition,
                timestamp=timestamp_ms,
                headers=headers,
            )
        assert producer.flush(WAIT_S) == 0

    def send_keyed(
        self, name: str, records: Iterable[tuple[bytes, bytes]], *, timestamp_ms: int
    ) -> None:
        """Appends values under keys to partition 0, all of one time."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for key, value in records:
            producer.produce(name, value, key=key, partition=0, timestamp=timestamp_ms)
        assert producer.flush(WAIT_S) == 0


def numbered(first: int, end: int) -> list[bytes | None]:
    """Values that tell their own order."""
    return [b"%d" % number for number in range(first, end)]

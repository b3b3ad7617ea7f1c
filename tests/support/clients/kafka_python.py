"""kafka-python."""

import socket
import warnings
from collections.abc import Sequence
from typing import Any

from tests.support.clients.client import WAIT_S, Sent, Stored, Unsayable, take

with warnings.catch_warnings():
    # It reads its schemas in a way that Python means to give up.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
    from kafka.errors import KafkaError
    from kafka.net.inet import KafkaNetSocket
    from kafka.structs import OffsetAndMetadata, TopicPartitionReplica

# What else of it the tests use comes from here, imported once with its warning quiet.
__all__ = [
    "ConfigResource",
    "ConfigResourceType",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "TopicPartition",
    "TopicPartitionReplica",
]

connect_as_it_does = KafkaNetSocket.sock_connect


async def connect_or_close(
    self: KafkaNetSocket, net: Any, opened: socket.socket, *where: Any, **until: Any
) -> socket.socket:
    """It leaves the socket of a connection that fails, as all do while a broker is away, to whoever
    collects garbage; and a socket that is found like that fails the test that runs just then.
    """
    try:
        return await connect_as_it_does(self, net, opened, *where, **until)
    except BaseException:
        opened.close()
        raise


KafkaNetSocket.sock_connect = connect_or_close


class KafkaPython:
    name = "kafka-python"
    cannot_say = frozenset({Unsayable.NULL_HEADER, Unsayable.NULL_KEY_AND_VALUE})

    def write(self, servers: str, topic: str, sent: Sequence[Sent], codec: str = "none") -> None:
        producer = KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            linger_ms=100,
        )
        try:
            coming = [
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in sent
            ]
            for each in coming:
                each.get(timeout=WAIT_S)
        finally:
            producer.close()

    def read(self, servers: str, topic: str, amount: int, *, first: int = 0) -> list[Stored]:
        consumer = open_consumer(servers)
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, first)
            return take(amount, lambda: poll(consumer))
        finally:
            consumer.close()

    def offset_at(self, servers: str, topic: str, timestamp_ms: int) -> int | None:
        consumer = open_consumer(servers)
        try:
            partition = TopicPartition(topic, 0)
            found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
            return None if found is None else found.offset
        finally:
            consumer.close()


def open_consumer(servers: str, **settings: object) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, **settings)


def poll(consumer: KafkaConsumer) -> list[Stored]:
    """What one poll brings, of all partitions."""
    return [
        Stored(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for records in consumer.poll(timeout_ms=int(WAIT_S * 1000)).values()
        for record in records
    ]

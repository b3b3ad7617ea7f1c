"""Writes to the cluster of a recorded case, through clients that others wrote."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.cluster_contents import WAIT_S

HOUR_MS = 3_600_000
# Records of the past, which retention would take if it were not off.
PAST_MS = 1_700_000_000_000
# A producer is forgotten a day after its last record: these are remembered until 2100.
FUTURE_MS = 4_102_444_800_000
CENTURY_MS = 100 * 365 * 24 * HOUR_MS
# Records that are an hour apart are in different segments.
ROLLING = {"segment.ms": str(HOUR_MS // 2), "retention.ms": "-1"}
ROLLING_IN_FUTURE = ROLLING | {"message.timestamp.after.max.ms": str(CENTURY_MS)}


class Writer:
    """What the scenes do to one cluster."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def make(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, partitions, 1, config=dict(configs))
        self.admin.create_topics([wanted])[topic].result(WAIT_S)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(WAIT_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        wanted = TopicPartition(topic, partition, before)
        self.admin.delete_records([wanted])[wanted].result(WAIT_S)

    @contextmanager
    def producing(self, **settings: str) -> Iterator[Producer]:
        """All records are acknowledged at the end of the block."""
        refused: list[KafkaError] = []

        def told(error: KafkaError | None, _record: Message) -> None:
            if error is not None:
                refused.append(error)

        given = {name.replace("_", "."): value for name, value in settings.items()}
        producer = Producer(
            {"bootstrap.servers": self.servers, "linger.ms": "20", "on_delivery": told} | given
        )
        yield producer
        assert producer.flush(WAIT_S) == 0
        assert refused == []

    def joined(self, group: str, *topics: str, **settings: str) -> Consumer:
        """A member of the group that has its assignment."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "client.id": "upgrade",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
            }
            | given
        )
        consumer.subscribe(list(topics))
        while not consumer.assignment():
            consumer.poll(0.1)
        return consumer


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def recovery_point(data: Path, partition: str) -> int:
    """As the checkpoint has it; -1 if it does not name the partition."""
    lines = (data / "recovery-point-offset-checkpoint").read_text().splitlines()
    named = [line for line in lines if line.startswith(f"{partition} ")]
    return int(named[0].rpartition(" ")[2]) if named else -1

"""librdkafka, through confluent-kafka."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.support.clients.client import REQUEST_BYTES_MAX, WAIT_S, Sent, Stored, Unsayable, take

NO_TIME = 0


class Librdkafka:
    name = "librdkafka"
    cannot_say = frozenset[Unsayable]()

    def write(self, servers: str, topic: str, sent: Sequence[Sent], codec: str = "none") -> None:
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": codec,
                "message.max.bytes": REQUEST_BYTES_MAX,
                "linger.ms": 100,
            }
        )
        errors: list[object] = []
        for record in sent:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=0,
                timestamp=record.timestamp_ms or NO_TIME,
                on_delivery=lambda error, _: errors.append(error),
            )
        # A flush would send at once what a batch can still wait for.
        deadline = time.monotonic() + WAIT_S
        while len(errors) < len(sent) and time.monotonic() < deadline:
            producer.poll(1)
        assert errors == [None] * len(sent)

    def read(self, servers: str, topic: str, amount: int, *, first: int = 0) -> list[Stored]:
        consumer = open_consumer(servers)
        try:
            consumer.assign([TopicPartition(topic, 0, first)])
            return take(amount, lambda: list(map(stored, consumer.consume(1, WAIT_S))))
        finally:
            consumer.close()

    def offset_at(self, servers: str, topic: str, timestamp_ms: int) -> int | None:
        consumer = open_consumer(servers)
        try:
            asked = [TopicPartition(topic, 0, timestamp_ms)]
            [found] = consumer.offsets_for_times(asked, WAIT_S)
            assert found.error is None
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()


def open_consumer(servers: str, **settings: object) -> Consumer:
    """Without a group, though librdkafka wants a name for one."""
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "none",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def stored(message: Message) -> Stored:
    assert message.error() is None, message.error()
    _, timestamp_ms = message.timestamp()
    return Stored(
        message.offset(),
        timestamp_ms,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )

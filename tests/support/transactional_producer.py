"""A transactional producer of librdkafka, step by step."""

from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.cluster_contents import WAIT_S


class TransactionalProducer:
    """A new producer of its transactional id: an earlier one is fenced. Each step is done when its
    method returns.
    """

    def __init__(self, servers: str, transactional_id: str, **settings: str) -> None:
        self._servers = servers
        self._refused: list[KafkaError] = []
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "linger.ms": "0",
                "on_delivery": self._told,
            }
            | given
        )
        self._producer.init_transactions(WAIT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, topic: str, partition: int, values: Sequence[str], timestamp_ms: int) -> None:
        for value in values:
            self._producer.produce(
                topic, value.encode(), partition=partition, timestamp=timestamp_ms
            )
        assert self._producer.flush(WAIT_S) == 0
        assert self._refused == []

    def send_offsets(self, group: str, *offsets: TopicPartition) -> None:
        with closing(Consumer({"bootstrap.servers": self._servers, "group.id": group})) as consumer:
            metadata = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(list(offsets), metadata, WAIT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_S)

    def _told(self, error: KafkaError | None, _record: Message) -> None:
        if error is not None:
            self._refused.append(error)

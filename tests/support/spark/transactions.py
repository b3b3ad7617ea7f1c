"""Transactional records of a producer."""

from collections.abc import Callable

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.spark.topics import WAIT_S, numbered, wait_until

COMMITTED = {"kafka.isolation.level": "read_committed"}


class Transactions:
    """A producer of partition 0 of a topic, one transaction after the other."""

    def __init__(self, servers: str, topic: str, transactional_id: str | None = None) -> None:
        self._topic = topic
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id or topic,
                # However slow the machine is, no transaction ends by itself.
                "transaction.timeout.ms": 900_000,
            }
        )
        self._producer.init_transactions(WAIT_S)

    def begin(self, first: int, end: int) -> None:
        """With these values, which are in the log on return."""
        self._producer.begin_transaction()
        self.more(first, end)

    def more(self, first: int, end: int) -> None:
        """Adds values to the transaction."""
        for value in numbered(first, end):
            self._producer.produce(self._topic, value, partition=0)
        assert self._producer.flush(WAIT_S) == 0

    def commit(self) -> None:
        self._finish(self._producer.commit_transaction)

    def abort(self) -> None:
        self._finish(self._producer.abort_transaction)

    def _finish(self, finish: Callable[[float], None]) -> None:
        """Returns when the log has the marker: the producer hears of the end before that."""
        end = self._end_offset()
        finish(WAIT_S)
        wait_until(lambda: self._end_offset() > end)

    def _end_offset(self) -> int:
        place = TopicPartition(self._topic, 0)
        found = self._admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED
        )
        return int(found[place].result(WAIT_S).offset)

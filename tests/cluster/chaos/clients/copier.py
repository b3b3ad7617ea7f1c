"""Copies topics exactly once: reads in a group, and commits its offsets in its transactions."""

from confluent_kafka import KafkaException, TopicPartition

from tests.cluster.chaos.clients.group import GroupConsumer
from tests.cluster.chaos.clients.process import Client, run
from tests.cluster.chaos.clients.transactions import (
    TransactionLine,
    open_line,
    reopen,
    run_transaction,
)
from tests.cluster.chaos.history import Partition, Record, Step

RECORDS_MAX = 50
ABORTED_SHARE = 0.1


class Copier:
    def __init__(self, client: Client, line: TransactionLine) -> None:
        self._client = client
        self._line = line
        self._consumer = GroupConsumer(client)

    def run(self) -> None:
        while not self._client.is_stopping:
            # Nothing is polled within a transaction: rebalances fall between transactions.
            batch = self._consumer.poll(RECORDS_MAX)
            if batch and not self._copy(batch):
                return
        self._consumer.close()

    def _copy(self, batch: list[Record]) -> bool:
        """False if the client is to end."""
        outcome = run_transaction(self._line, lambda: self._fill(batch))
        if outcome is Step.COMMITTED:
            self._consumer.committed(following(batch))
            return True
        if outcome is Step.UNKNOWN:
            self._consumer.close()
            # First the outcome is settled, then the group's offsets are read.
            if not reopen(self._client, self._line):
                return False
            self._consumer = GroupConsumer(self._client)
            return True
        self._go_back(batch)
        return True

    def _go_back(self, batch: list[Record]) -> None:
        first = {record.where: record.offset for record in reversed(batch)}
        try:
            self._consumer.go_back(first)
        except KafkaException:
            self._consumer.close()
            self._consumer = GroupConsumer(self._client)

    def _fill(self, batch: list[Record]) -> bool:
        for record in batch:
            partition = Partition(self._client.options.target, record.partition)
            self._line.send(partition, record.value)
        offsets = [TopicPartition(*where, offset) for where, offset in following(batch).items()]
        metadata = self._consumer.consumer.consumer_group_metadata()
        self._line.call(
            lambda timeout_s: self._line.producer.send_offsets_to_transaction(
                offsets, metadata, timeout_s
            )
        )
        return self._client.random.random() >= ABORTED_SHARE


def following(batch: list[Record]) -> dict[Partition, int]:
    return {record.where: record.offset + 1 for record in batch}


def copy(client: Client) -> None:
    line = open_line(client)
    if line is not None:
        Copier(client, line).run()


if __name__ == "__main__":
    run(copy)

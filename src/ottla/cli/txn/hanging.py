"""`ottla txn find-hanging`: open transactions that no coordinator will end."""

from ottla.cli.shared.failure import Failure
from ottla.cli.shared.output import Row, RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.cli.txn.partition_name import partition_name
from ottla.cli.txn.show import idle_seconds
from ottla.client.admin.cluster import Admin
from ottla.client.admin.hanging_transactions import find_hanging
from ottla.client.admin.transactions import OpenTransaction
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Topic
from ottla.protocol.topic_partition import TopicPartition


async def find_hanging_transactions(
    router: Router, topic: str | None, writer: RowWriter, *, older_than_ms: int, now_ms: int
) -> None:
    """Failure, after all results, if a partition could not be examined."""
    partitions = [
        TopicPartition(each.name, partition.number)
        for each in await _topics(router, topic)
        for partition in each.partitions
    ]
    hanging = await find_hanging(router, partitions, older_than_ms=older_than_ms, now_ms=now_ms)
    for transaction in hanging.found:
        writer.write(open_transaction_row(transaction, now_ms))
    writer.close()
    if hanging.found:
        first = hanging.found[0]
        say(
            f"found {counted(len(hanging.found), 'hanging transaction')}; `ottla txn abort"
            f" {partition_name(first.partition)} --start-offset {first.start_offset}` ends the"
            " first"
        )
    for partition, error in hanging.not_examined.items():
        say(f"{partition_name(partition)} was not examined: {error}")
    if hanging.not_examined:
        raise Failure(
            f"{counted(len(hanging.not_examined), 'partition')} of {len(partitions)} could not be"
            " examined",
            why="their leaders did not tell their producers",
        )


def open_transaction_row(transaction: OpenTransaction, now_ms: int) -> Row:
    return {
        "kind": "transaction",
        "name": partition_name(transaction.partition),
        "start_offset": transaction.start_offset,
        "producer_id": transaction.producer.producer_id,
        "producer_epoch": transaction.producer.producer_epoch,
        "coordinator_epoch": transaction.coordinator_epoch,
        "idle_seconds": idle_seconds(transaction.last_timestamp_ms, now_ms),
    }


async def _topics(router: Router, topic: str | None) -> list[Topic]:
    """One topic, or all with the internal ones: offsets may be committed in a transaction too."""
    admin = Admin(router)
    if topic is None:
        return await admin.list_topics()
    return [unwrap((await admin.describe_topics([topic]))[topic])]

"""Copies a partition to another topic exactly once, with aiokafka.

The new records and the consumer's offset are committed in one transaction: after any failure both
or neither are there. Readers of the new topic need isolation_level="read_committed".

aiokafka does not send the group's metadata with the offsets (KIP-447), so that a group's rebalance
does not fence a consumer that has lost its partitions. Instead one program copies one partition,
and the transactional id names the partition: a second program for it fences the first.

$ python examples/exactly_once_aiokafka.py orders 0 invoices localhost:9092
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

MAX_RECORDS = 500


def open_consumer(bootstrap_servers: str, group: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        # The producer commits the offsets.
        enable_auto_commit=False,
    )


async def copy_some(
    consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, target: str, group: str
) -> int:
    """One transaction; returns the number of its records."""
    read = await consumer.getmany(timeout_ms=1_000, max_records=MAX_RECORDS)
    records = [record for of_partition in read.values() for record in of_partition]
    if not records:
        return 0
    try:
        # Commits at the end of the block, or aborts after an exception.
        async with producer.transaction():
            for record in records:
                await producer.send(target, key=record.key, value=record.value)
            await producer.send_offsets_to_transaction(
                {partition: some[-1].offset + 1 for partition, some in read.items()}, group
            )
    except ProducerFenced:
        raise
    except KafkaError:
        await rewind(consumer)
        return 0
    return len(records)


async def rewind(consumer: AIOKafkaConsumer) -> None:
    """Back to the committed offsets: the records of the aborted transaction are read again."""
    for partition in consumer.assignment():
        offset = await consumer.committed(partition)
        if offset is None:
            await consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, offset)


async def main(
    source: str, partition: str, target: str, bootstrap_servers: str = "localhost:9092"
) -> None:
    group = f"{source}-to-{target}"
    async with (
        open_consumer(bootstrap_servers, group) as consumer,
        AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=f"{group}-{partition}"
        ) as producer,
    ):
        consumer.assign([TopicPartition(source, int(partition))])
        while True:
            if copied := await copy_some(consumer, producer, target, group):
                print(f"copied {copied} records")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

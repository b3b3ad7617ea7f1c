"""Copies records from one topic to another exactly once, with confluent-kafka.

The new records and the consumer's offsets are committed in one transaction: after any failure both
or neither are there. Readers of the new topic need isolation.level=read_committed.

$ python examples/exactly_once_confluent.py orders invoices localhost:9092
"""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer

MAX_RECORDS = 500


def open_consumer(source: str, bootstrap_servers: str, group: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            # The producer commits the offsets.
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([source])
    return consumer


def open_producer(bootstrap_servers: str, transactional_id: str) -> Producer:
    """Each running copy of the program needs a transactional id of its own.

    A second one with the same id fences the first, whose open transaction is aborted.
    """
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id}
    )
    producer.init_transactions()
    return producer


def copy_some(consumer: Consumer, producer: Producer, target: str) -> int:
    """One transaction; returns the number of its records."""
    records = consumer.consume(MAX_RECORDS, timeout=1.0)
    if not records:
        return 0
    producer.begin_transaction()
    try:
        for record in records:
            if record.error():
                raise KafkaException(record.error())
            producer.produce(target, key=record.key(), value=record.value())
        # The group's metadata lets the broker refuse a consumer that has lost its partitions.
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        producer.commit_transaction()
    except KafkaException as failure:
        if not failure.args[0].txn_requires_abort():
            raise
        producer.abort_transaction()
        rewind(consumer)
        return 0
    return len(records)


def rewind(consumer: Consumer) -> None:
    """Back to the committed offsets: the records of the aborted transaction are read again."""
    for partition in consumer.committed(consumer.assignment()):
        if partition.offset < 0:
            partition.offset = OFFSET_BEGINNING
        consumer.seek(partition)


def main(source: str, target: str, bootstrap_servers: str = "localhost:9092") -> None:
    consumer = open_consumer(source, bootstrap_servers, f"{source}-to-{target}")
    producer = open_producer(bootstrap_servers, f"{source}-to-{target}-1")
    try:
        while True:
            if copied := copy_some(consumer, producer, target):
                print(f"copied {copied} records")
    finally:
        consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

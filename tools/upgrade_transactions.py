"""What `transactions-killed` holds: transactions of librdkafka, and some of Java's producer."""

from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from tests.support.cluster_contents import kafka_python_admin
from tests.support.compat.java_tools import run_tool
from tests.support.transaction_contents import features
from tests.support.transactional_producer import TransactionalProducer
from tools.upgrade_writer import (
    FUTURE_MS,
    HOUR_MS,
    ROLLING_IN_FUTURE,
    Writer,
    recovery_point,
    until,
)

TOPIC = "payments"
BUMPED = "bumped"
# The transactional id, and the group, of the transaction that is open at the end.
OPEN, PENDING = "open", "pending"
# Over by the time at which somebody opens the directory.
OPEN_TIMEOUT_MS = 3_000
TRANSACTION_VERSION = "transaction.version"


def write_first_transactions(writer: Writer) -> None:
    """Before the first restart: both transaction versions, a commit and an abort with offsets."""
    write_bumped(writer)
    # The times of markers, which are the broker's, begin no segment: records of 2100 do.
    writer.make(TOPIC, 2, ROLLING_IN_FUTURE)
    first = TransactionalProducer(writer.servers, "first")
    first.begin()
    first.write(TOPIC, 0, ["first 0 committed", "first 1 committed"], FUTURE_MS)
    first.write(TOPIC, 1, ["first 2 committed"], FUTURE_MS)
    first.send_offsets("copied", TopicPartition(TOPIC, 0, 2, "of a transaction", 0))
    first.commit()
    first.begin()
    first.write(TOPIC, 0, ["first 3 aborted"], FUTURE_MS)
    offsets = [TopicPartition(TOPIC, number, 3, "of an aborted one") for number in range(2)]
    first.send_offsets("copied", *offsets)
    first.abort()
    lower_transaction_version(writer)


def write_bumped(writer: Writer) -> None:
    """Transactions of version 2, which only Java's producer knows: each bumps its epoch."""
    writer.make(BUMPED, 1, {"retention.ms": "-1"})
    arguments = {"topic": BUMPED, "transactional-id": "java", "transaction-duration-ms": "1"}
    arguments |= {"num-records": "6", "record-size": "16", "throughput": "20"}
    given = [part for name, value in arguments.items() for part in (f"--{name}", value)]
    servers = f"bootstrap.servers={writer.servers}"
    run_tool("ProducerPerformance", *given, "--producer-props", servers, "linger.ms=0")


def lower_transaction_version(writer: Writer) -> None:
    with kafka_python_admin(writer.servers) as admin:
        admin.update_features({TRANSACTION_VERSION: ("SAFE_DOWNGRADE", 1)})
    until(lambda: features(writer.servers)[TRANSACTION_VERSION] == 1)


def write_transactions(writer: Writer, data: Path) -> TransactionalProducer:
    """The rest. Returns the producer whose transaction is open."""
    first = TransactionalProducer(writer.servers, "first")
    second = TransactionalProducer(writer.servers, "second")
    TransactionalProducer(writer.servers, "idle")
    write_interleaved(second, first, hour=1)
    write_interleaved(first, second, hour=3)
    write_overtaken(writer, first)
    opened = leave_open(writer, hour=5)
    # A kill leaves their snapshots and transaction indexes trusted; the tail is recovered.
    until(lambda: all(closed_segments_are_flushed(data, number) for number in range(2)))
    write_tail(first, hour=6)
    return opened


def write_interleaved(
    committed: TransactionalProducer, aborted: TransactionalProducer, hour: int
) -> None:
    """Two transactions at a time. Both have records in two segments of each partition."""
    committed.begin()
    aborted.begin()
    for each in (hour, hour + 1):
        time_ms = FUTURE_MS + each * HOUR_MS
        for number in range(2):
            aborted.write(TOPIC, number, [f"{each} {number} aborted"], time_ms)
            committed.write(TOPIC, number, [f"{each} {number} committed"], time_ms)
            aborted.write(TOPIC, number, [f"{each} {number} aborted too"], time_ms)
    committed.commit()
    aborted.abort()


def write_overtaken(writer: Writer, first: TransactionalProducer) -> None:
    """A plain commit is written between a transactional one and its marker, and stays."""
    first.begin()
    first.send_offsets("overtaken", TopicPartition(TOPIC, 0, 6), TopicPartition(TOPIC, 1, 6))
    commit_plainly(writer, "overtaken", TopicPartition(TOPIC, 0, 5))
    first.commit()


def leave_open(writer: Writer, hour: int) -> TransactionalProducer:
    """Has records in two segments of each partition, and offsets of a group that has older ones."""
    commit_plainly(writer, PENDING, TopicPartition(TOPIC, 0, 1, "before"))
    opened = TransactionalProducer(
        writer.servers, OPEN, transaction_timeout_ms=str(OPEN_TIMEOUT_MS)
    )
    opened.begin()
    for each in (hour, hour + 1):
        for number in range(2):
            opened.write(TOPIC, number, [f"{each} {number} open"], FUTURE_MS + each * HOUR_MS)
    offsets = [TopicPartition(TOPIC, number, 4, "pending") for number in range(2)]
    opened.send_offsets(PENDING, *offsets)
    return opened


def write_tail(first: TransactionalProducer, hour: int) -> None:
    """Committed records, held back by the open transaction, and no flush comes to them."""
    first.begin()
    for number in range(2):
        first.write(TOPIC, number, ["last committed"], FUTURE_MS + hour * HOUR_MS)
    first.commit()


def closed_segments_are_flushed(data: Path, number: int) -> bool:
    *_, active = sorted((data / f"{TOPIC}-{number}").glob("*.log"))
    return recovery_point(data, f"{TOPIC} {number}") >= int(active.stem)


def commit_plainly(writer: Writer, group: str, *offsets: TopicPartition) -> None:
    settings = {"bootstrap.servers": writer.servers, "group.id": group}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=list(offsets), asynchronous=False)

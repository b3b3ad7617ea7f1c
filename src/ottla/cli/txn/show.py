"""`ottla txn list`, `describe` and `producers`."""

from collections.abc import Iterable, Sequence

from ottla.cli.shared.durations import parse_duration
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.offset_lookup import chosen_partitions
from ottla.cli.shared.output import Row, RowWriter
from ottla.cli.txn.partition_name import TopicOrPartition, partition_name
from ottla.client.admin.transactions import (
    OPEN_STATES,
    STATES,
    DescribedTransaction,
    PartitionProducer,
    TransactionFilter,
    describe_partition_producers,
    describe_transaction,
    list_all_transactions,
)
from ottla.client.errors import Refused
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.nearest import did_you_mean
from ottla.protocol.topic_partition import TopicPartition


def parse_filter(
    states: Iterable[str], producer_ids: Iterable[int], older_than: str | None, pattern: str | None
) -> TransactionFilter:
    """The filter of these options. Failure if one is invalid."""
    wanted = _known_states(states)
    if older_than is None:
        return TransactionFilter(wanted, tuple(producer_ids), pattern=pattern)
    # Coordinators compare the start of a transaction, whether it is still open or not.
    older_than_ms = parse_duration(older_than, "--older-than")
    return TransactionFilter(wanted or OPEN_STATES, tuple(producer_ids), older_than_ms, pattern)


def _known_states(states: Iterable[str]) -> tuple[str, ...]:
    """The states as coordinators write them. Failure if one is not a state of a transaction."""
    known = {state.casefold(): state for state in STATES}
    for state in states:
        if state.casefold() not in known:
            raise Failure(
                f"no transaction state '{state}'{did_you_mean(state, STATES)}",
                advice=f"use one of {', '.join(STATES)}",
                exit_code=ExitCode.NOT_FOUND,
            )
    return tuple(known[state.casefold()] for state in states)


async def list_transactions(router: Router, wanted: TransactionFilter, writer: RowWriter) -> None:
    """Failure if a broker does not understand the pattern."""
    try:
        listed = await list_all_transactions(router, wanted)
    except Refused as refused:
        if refused.code != ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise
        raise Failure(
            f"--pattern {wanted.pattern!r} is not a regular expression of RE2",
            exit_code=ExitCode.USAGE,
        ) from refused
    for each in listed:
        writer.write(
            {
                "kind": "transaction",
                "name": each.transactional_id,
                "state": each.state,
                "producer_id": each.producer_id,
                "coordinator": each.coordinator,
            }
        )
    writer.close()


async def describe_transactions(
    router: Router, names: Sequence[str], writer: RowWriter, *, now_ms: int
) -> None:
    """Writes rows of transactional ids, then of partitions. Refused if an id is missing."""
    described = [await describe_transaction(router, name) for name in dict.fromkeys(names)]
    for each in described:
        writer.write(transaction_row(each, now_ms))
    for each in described:
        for partition in sorted(each.partitions):
            writer.write(
                {
                    "kind": "partition",
                    "transaction": each.transactional_id,
                    "partition": partition_name(partition),
                }
            )
    writer.close()


def transaction_row(transaction: DescribedTransaction, now_ms: int) -> Row:
    # A coordinator keeps the start of a transaction that is over.
    start_ms = transaction.start_ms if transaction.state in OPEN_STATES else None
    return {
        "kind": "transaction",
        "name": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer.producer_id,
        "producer_epoch": transaction.producer.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "open_seconds": None if start_ms is None else max(0, now_ms - start_ms) // 1000,
        "coordinator": str(transaction.coordinator),
        "partitions": len(transaction.partitions),
    }


async def show_producers(
    router: Router, asked: TopicOrPartition, writer: RowWriter, *, now_ms: int
) -> None:
    """Writes a row per producer and partition. Refused if the topic is missing."""
    numbers = None if asked.partition is None else [asked.partition]
    partitions = chosen_partitions(await router.topic(asked.topic), numbers)
    outcomes = await describe_partition_producers(router, partitions)
    for partition in partitions:
        for producer in sorted(unwrap(outcomes[partition])):
            writer.write(_producer_row(partition, producer, now_ms))
    writer.close()


def _producer_row(partition: TopicPartition, producer: PartitionProducer, now_ms: int) -> Row:
    return {
        "kind": "producer",
        "name": partition_name(partition),
        "producer_id": producer.producer.producer_id,
        "producer_epoch": producer.producer.producer_epoch,
        "last_sequence": producer.last_sequence if producer.last_sequence >= 0 else None,
        "idle_seconds": idle_seconds(producer.last_timestamp_ms, now_ms),
        "coordinator_epoch": producer.coordinator_epoch,
        "open_since_offset": producer.start_offset,
    }


def idle_seconds(last_timestamp_ms: int, now_ms: int) -> int | None:
    """The age of a producer's last record; None if it has none."""
    return None if last_timestamp_ms < 0 else max(0, now_ms - last_timestamp_ms) // 1000

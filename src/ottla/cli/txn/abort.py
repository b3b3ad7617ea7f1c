"""`ottla txn abort`: a hanging transaction in its partition, or an open one by its id."""

from dataclasses import dataclass

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.offset_lookup import chosen_partitions
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.txn.hanging import open_transaction_row
from ottla.cli.txn.partition_name import parse_partition, partition_name
from ottla.cli.txn.show import transaction_row
from ottla.client.admin.hanging_transactions import owner_of, owners_of
from ottla.client.admin.transactions import (
    ONGOING,
    PREPARE_COMMIT,
    OpenTransaction,
    describe_partition_producers,
    describe_transaction,
    fence_producer,
    open_transactions,
    write_abort_marker,
)
from ottla.client.errors import Refused
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class HangingTarget:
    """A transaction in a partition, by its first offset or by its producer."""

    partition: TopicPartition
    start_offset: int | None
    producer_id: int | None
    producer_epoch: int | None

    def is_met_by(self, transaction: OpenTransaction) -> bool:
        producer_id, producer_epoch = transaction.producer
        return (
            self.start_offset in (None, transaction.start_offset)
            and self.producer_id in (None, producer_id)
            and self.producer_epoch in (None, producer_epoch)
        )

    def __str__(self) -> str:
        if self.start_offset is not None:
            return f"from offset {self.start_offset}"
        epoch = "" if self.producer_epoch is None else f" at epoch {self.producer_epoch}"
        return f"of producer {self.producer_id}{epoch}"


def parse_target(
    partition: str | None,
    transactional_id: str | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
) -> HangingTarget | str:
    """The transaction to abort, or the transactional id. Failure unless exactly one is named."""
    if transactional_id is not None:
        if any(each is not None for each in (partition, start_offset, producer_id, producer_epoch)):
            raise _usage("--id names a transaction already")
        return transactional_id
    if partition is None:
        raise _usage("no transaction is named")
    asked = parse_partition(partition)
    if asked.partition is None:
        raise _usage(f"{partition} is a topic")
    if (start_offset is None) == (producer_id is None):
        raise _usage("give either --start-offset or --producer-id")
    if producer_epoch is not None and producer_id is None:
        raise _usage("--producer-epoch needs --producer-id")
    named = TopicPartition(asked.topic, asked.partition)
    return HangingTarget(named, start_offset, producer_id, producer_epoch)


async def abort_hanging(
    router: Router, target: HangingTarget, writer: RowWriter, *, may_act: bool, now_ms: int
) -> None:
    """Failure if there is no such transaction, or if its coordinator still knows it."""
    transaction = await _open_transaction(router, target)
    name = partition_name(target.partition)
    if owner := owner_of(transaction, await owners_of(router, [transaction])):
        raise Failure(
            f"the transaction {target} in {name} is not hanging",
            why=f"transactional id {owner.transactional_id} is in state {owner.state}, and its"
            " coordinator will end the transaction in all of its partitions",
            advice=f"`ottla txn abort --id {owner.transactional_id}`",
        )
    writer.write(open_transaction_row(transaction, now_ms))
    writer.close()
    if not may_act:
        say("nothing was changed: `--yes` writes an abort marker; readers skip the transaction")
        return
    await _write_marker(router, transaction)
    left = unwrap(
        (await describe_partition_producers(router, [target.partition]))[target.partition]
    )
    for each in open_transactions(target.partition, left):
        if each.start_offset == transaction.start_offset:
            raise Failure(
                f"the transaction {target} in {name} is still open",
                why="its leader has accepted the marker, but does not apply it",
                exit_code=ExitCode.CHECK_FAILED,
            )
    say(f"aborted the transaction {target} in {name}, verified by its leader")


async def abort_by_id(
    router: Router, transactional_id: str, writer: RowWriter, *, may_act: bool, now_ms: int
) -> None:
    """Fences the producer, whose open transaction is aborted. Refused if there is no such id."""
    before = await describe_transaction(router, transactional_id)
    if before.state == PREPARE_COMMIT:
        raise Failure(
            f"the transaction of {transactional_id} is being committed",
            why="its coordinator has decided, and writes the markers",
        )
    writer.write(transaction_row(before, now_ms))
    writer.close()
    if before.state != ONGOING:
        say(f"there is nothing to abort: {transactional_id} is in state {before.state}")
        return
    if not may_act:
        say(
            "nothing was changed: `--yes` aborts the transaction and fences its producer, which"
            " gets PRODUCER_FENCED and has to be started again"
        )
        return
    # The id keeps its timeout.
    producer = await fence_producer(router, transactional_id, before.timeout_ms)
    say(
        f"aborted the transaction of {transactional_id}; its producer is fenced: the next one has"
        f" producer id {producer.producer_id} and an epoch above {producer.producer_epoch}"
    )


async def _open_transaction(router: Router, target: HangingTarget) -> OpenTransaction:
    """The transaction that is meant. Failure if it is not open."""
    partition = target.partition
    chosen_partitions(await router.topic(partition.topic), [partition.partition])
    producers = unwrap((await describe_partition_producers(router, [partition]))[partition])
    for transaction in open_transactions(partition, producers):
        if target.is_met_by(transaction):
            return transaction
    name = partition_name(partition)
    raise Failure(
        f"no transaction {target} is open in {name}",
        advice=f"`ottla txn producers {name}` shows the open ones",
        exit_code=ExitCode.NOT_FOUND,
    )


async def _write_marker(router: Router, transaction: OpenTransaction) -> None:
    try:
        await write_abort_marker(router, transaction)
    except Refused as refused:
        if refused.code not in (
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ):
            raise
        raise Failure(
            f"the leader of {partition_name(transaction.partition)} refused the marker",
            why=f"{refused.code.name}: the producer or its coordinator has moved on since",
            advice="look again with `ottla txn find-hanging`",
        ) from refused


def _usage(what: str) -> Failure:
    return Failure(
        what,
        advice="`ottla txn abort --id ID`, or `ottla txn abort TOPIC:PARTITION` with"
        " --start-offset or --producer-id",
        exit_code=ExitCode.USAGE,
    )

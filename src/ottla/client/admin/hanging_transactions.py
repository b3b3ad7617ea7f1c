"""Hanging transactions: open in a partition, and no coordinator will ever end them.

Such a transaction holds back the last stable offset, and so every read_committed reader of its
partition.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin.transactions import (
    DescribedTransaction,
    OpenTransaction,
    TransactionFilter,
    describe_partition_producers,
    describe_transaction,
    list_all_transactions,
    open_transactions,
)
from ottla.client.errors import ClientError, Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition


class HangingTransactions(NamedTuple):
    """The hanging transactions, and the partitions that could not be examined."""

    found: list[OpenTransaction]
    not_examined: Mapping[TopicPartition, ClientError]


async def find_hanging(
    router: Router, partitions: Sequence[TopicPartition], *, older_than_ms: int, now_ms: int
) -> HangingTransactions:
    """The hanging transactions without a record for longer than `older_than_ms`. Refused.

    A threshold above every client's transaction timeout limits the search to those that their
    coordinator should have ended.
    """
    seen, not_examined = await _open_in(router, partitions)
    candidates = [each for each in seen if now_ms - each.last_timestamp_ms > older_than_ms]
    owners = await owners_of(router, candidates)
    hanging = [each for each in candidates if owner_of(each, owners) is None]
    # A coordinator forgets a partition after its marker: some may have ended in the meantime.
    now_open, failed = await _open_in(router, sorted({each.partition for each in hanging}))
    still_open = {_identity(each) for each in now_open}
    found = [each for each in hanging if _identity(each) in still_open]
    return HangingTransactions(found, not_examined | failed)


async def owners_of(
    router: Router, transactions: Iterable[OpenTransaction]
) -> list[DescribedTransaction]:
    """The transactional ids whose producers have these transactions. Refused."""
    producer_ids = tuple(sorted({each.producer.producer_id for each in transactions}))
    if not producer_ids:
        return []
    listed = await list_all_transactions(router, TransactionFilter(producer_ids=producer_ids))
    owners = []
    for each in listed:
        try:
            owners.append(await describe_transaction(router, each.transactional_id))
        except Refused as refused:
            # It has expired since it was listed.
            if refused.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
    return owners


def owner_of(
    transaction: OpenTransaction, owners: Iterable[DescribedTransaction]
) -> DescribedTransaction | None:
    """The transactional id whose coordinator will write a marker for it; None if it hangs.

    A marker at a later epoch of the same producer ends it too.
    """
    for owner in owners:
        if (
            owner.producer.producer_id == transaction.producer.producer_id
            and transaction.partition in owner.partitions
        ):
            return owner
    return None


async def _open_in(
    router: Router, partitions: Sequence[TopicPartition]
) -> tuple[list[OpenTransaction], dict[TopicPartition, ClientError]]:
    """The transactions that are open in these partitions, and the partitions that failed."""
    found: list[OpenTransaction] = []
    failed: dict[TopicPartition, ClientError] = {}
    for partition, outcome in (await describe_partition_producers(router, partitions)).items():
        if isinstance(outcome, ClientError):
            failed[partition] = outcome
        else:
            found += open_transactions(partition, outcome)
    return found, failed


def _identity(transaction: OpenTransaction) -> tuple[TopicPartition, int, int]:
    return transaction.partition, transaction.producer.producer_id, transaction.start_offset

"""The transaction coordinator: the shards of `__transaction_state`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ottla.coordinators.runtime.shard import Shard
from ottla.coordinators.runtime.shards import Shards
from ottla.coordinators.txn.decision import WriteMarkers
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    # Imported for the first transactional id: a broker without any starts sooner.
    from ottla.coordinators.txn.machine import TransactionMachine

TransactionShard: TypeAlias = "Shard[TransactionMachine, WriteMarkers]"
TransactionShards: TypeAlias = "Shards[TransactionMachine, WriteMarkers]"
# The version of clients whose partitions are added by partition leaders.
ADDED_BY_LEADERS_VERSION = 2


class LocalVerifier:
    """The `TransactionVerifier` of transactional ids that this broker coordinates.

    Unless `is_enabled`, partitions that producers have to add themselves are not verified.
    """

    def __init__(self, shards: TransactionShards, is_enabled: Callable[[], bool]) -> None:
        self._shards = shards
        self._is_enabled = is_enabled

    async def verify(self, verification: Verification) -> Mapping[TopicPartition, ErrorCode]:
        try:
            shard = self._shards.of(verification.transactional_id)
            if verification.adds:
                await _add(shard, verification)
                return dict.fromkeys(verification.partitions, ErrorCode.NONE)
            if not self._is_enabled():
                return dict.fromkeys(verification.partitions, ErrorCode.NONE)
            return await _verify(shard, verification)
        except PeerError as error:
            return dict.fromkeys(verification.partitions, error.code)


async def _verify(
    shard: TransactionShard, verification: Verification
) -> Mapping[TopicPartition, ErrorCode]:
    transactional_id, producer_id, producer_epoch, partitions, *_ = verification
    producer = ProducerIdAndEpoch(producer_id, producer_epoch)
    return await shard.read(
        lambda _now_ms: shard.machine.verify(transactional_id, producer, partitions)
    )


async def _add(shard: TransactionShard, verification: Verification) -> None:
    from ottla.coordinators.txn.machine import AddRequest

    transactional_id, producer_id, producer_epoch, partitions, *_ = verification
    request = AddRequest(
        transactional_id,
        ProducerIdAndEpoch(producer_id, producer_epoch),
        frozenset(partitions),
        ADDED_BY_LEADERS_VERSION,
    )
    await shard.ask(lambda ticket, now_ms: shard.machine.add_partitions(request, ticket, now_ms))

"""Composes the transaction coordinator of a node from its settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ottla.broker.event_log import Logger
from ottla.broker.node.shard_events import LoggingShardListener
from ottla.broker.requests.coordinator_topics import MESSAGE_BYTES_MAX
from ottla.broker.requests.producer_ids import ProducerIdBlocks
from ottla.coordinators.runtime.shards import CoordinatorKind, ShardParts, Shards
from ottla.coordinators.txn.coordinator import TransactionShards
from ottla.coordinators.txn.decision import WriteMarkers
from ottla.coordinators.txn.marker_writer import MarkerWriter
from ottla.coordinators.txn.partition_leaders import PartitionLeaders
from ottla.errors import ErrorCode
from ottla.metadata.features import transaction_version
from ottla.metadata.image import Image
from ottla.metadata.topic_names import TRANSACTION_STATE
from ottla.metrics.meters import TransactionMeter
from ottla.protocol.topic_partition import TopicPartition
from ottla.settings.broker import BrokerSettings
from ottla.settings.table import groups, transactions

if TYPE_CHECKING:
    from ottla.coordinators.txn.machine import TransactionMachine, TransactionRules

# Below the limit of a batch, since records have overhead.
DECISION_BYTES_MAX = MESSAGE_BYTES_MAX - (MESSAGE_BYTES_MAX >> 4)


@dataclass(frozen=True, slots=True)
class TransactionEnvironment:
    """The current settings and image for transactions, new producer ids, metrics and events."""

    settings: Callable[[], BrokerSettings]
    image: Callable[[], Image]
    producer_ids: ProducerIdBlocks
    meter: TransactionMeter
    logger: Logger


def transaction_shards(
    environment: TransactionEnvironment, leaders: PartitionLeaders, parts: ShardParts
) -> TransactionShards:
    """The shards of the transaction coordinator of a broker, not yet started."""

    def refused(name: TopicPartition, effect: WriteMarkers, code: ErrorCode) -> None:
        environment.logger.error(
            "transaction marker refused",
            repeats_of=str(name),
            partition=str(name),
            transactional_id=effect.transactional_id,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            error=code.name,
        )

    def delayed(name: TopicPartition | None, effect: WriteMarkers) -> None:
        # A full disk, for example. A record of the end is missing if there is no partition.
        environment.logger.warning(
            "transaction cannot end yet",
            repeats_of=str(name),
            partition=str(name) if name else None,
            transactional_id=effect.transactional_id,
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
        )

    writer = MarkerWriter(
        leaders,
        lambda transactional_id: shards.of(transactional_id),
        environment.image,
        parts.spawn,
        environment.meter,
        refused,
        delayed,
    )
    settings = environment.settings()
    kind = CoordinatorKind(
        topic=TRANSACTION_STATE,
        new_machine=lambda: transaction_machine(environment),
        perform=writer.perform,
        listener=LoggingShardListener("transaction", environment.logger, environment.meter),
        commit_timeout_ms=settings[groups.OFFSETS_COMMIT_TIMEOUT_MS],
        decision_bytes_max=DECISION_BYTES_MAX,
        load_buffer_bytes=settings[transactions.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE],
    )
    shards: TransactionShards = Shards(kind, parts)
    return shards


# The module is imported with the first transactional id: a broker without any starts faster and
# uses less memory.


def transaction_machine(environment: TransactionEnvironment) -> "TransactionMachine":
    """A state machine without transactional ids."""
    from ottla.coordinators.txn.machine import TransactionMachine

    return TransactionMachine(
        lambda: transaction_rules(environment.settings()),
        environment.producer_ids.require,
        lambda: transaction_version(environment.image()),
        environment.meter,
    )


@lru_cache(maxsize=16)
def transaction_rules(settings: BrokerSettings) -> "TransactionRules":
    """The rules of all transactional ids. Cached, since every transaction needs them."""
    from ottla.coordinators.txn.machine import TransactionRules

    return TransactionRules(
        timeout_ms_max=settings[transactions.TRANSACTION_MAX_TIMEOUT_MS],
        timeout_check_interval_ms=settings[
            transactions.TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS
        ],
        id_expiration_ms=settings[transactions.TRANSACTIONAL_ID_EXPIRATION_MS],
        expiry_check_interval_ms=settings[
            transactions.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS
        ],
        ids_max=settings[transactions.TRANSACTIONAL_IDS_MAX],
        partitions_max=settings[transactions.TRANSACTION_PARTITIONS_MAX],
    )

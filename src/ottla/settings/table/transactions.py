"""Transactions: their coordinator, its topic, timeouts, and limits."""

from ottla.settings.kinds import Boolean, Unit, integer, short
from ottla.settings.setting import broker_setting

_DAY_MS = 24 * 60 * 60_000

# The topic of the coordinator

TRANSACTION_STATE_LOG_NUM_PARTITIONS = broker_setting(
    "transaction.state.log.num.partitions",
    integer(1, 1_000),
    50,
    "The number of partitions with which the transaction topic is created.",
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = broker_setting(
    "transaction.state.log.replication.factor",
    short(1),
    3,
    "The replication factor with which the transaction topic is created, once so many brokers are"
    " up; a broker without a cluster creates it with one replica.",
)
TRANSACTION_STATE_LOG_MIN_ISR = broker_setting(
    "transaction.state.log.min.isr",
    integer(1),
    2,
    "The `min.insync.replicas` with which the transaction topic is created; in force is at most the"
    " number of replicas.",
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = broker_setting(
    "transaction.state.log.segment.bytes",
    integer(1 << 20, unit=Unit.BYTES),
    100 << 20,
    "The segment size of the transaction topic: smaller segments are compacted sooner.",
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = broker_setting(
    "transaction.state.log.load.buffer.size",
    integer(1, unit=Unit.BYTES),
    5 << 20,
    "How much of a partition of the transaction topic is read at once when it is loaded.",
)

# Timeouts

TRANSACTION_MAX_TIMEOUT_MS = broker_setting(
    "transaction.max.timeout.ms",
    integer(1, unit=Unit.MS),
    15 * 60_000,
    "The longest transaction timeout that a producer may ask for; an open transaction holds back"
    " all read_committed consumers of its partitions.",
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = broker_setting(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    integer(1, unit=Unit.MS),
    10_000,
    "How often transactions that have exceeded their timeout are aborted.",
)
TRANSACTIONAL_ID_EXPIRATION_MS = broker_setting(
    "transactional.id.expiration.ms",
    integer(1, unit=Unit.MS),
    7 * _DAY_MS,
    "How long a transactional id without an open transaction is kept after its last use.",
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = broker_setting(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    integer(1, unit=Unit.MS),
    3_600_000,
    "How often expired transactional ids are removed.",
)

# Verification (KIP-890)

TRANSACTION_PARTITION_VERIFICATION_ENABLE = broker_setting(
    "transaction.partition.verification.enable",
    Boolean(),
    True,
    "Whether a partition's leader asks the transaction's coordinator before a producer without"
    " KIP-890 begins to write to the partition in a transaction.",
    is_dynamic=True,
)

ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = broker_setting(
    "add.partitions.to.txn.retry.backoff.ms",
    integer(1, unit=Unit.MS),
    20,
    "How long a partition's leader waits before it asks again to add the partition to a"
    " transaction, while the markers of the producer's previous transaction are written.",
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = broker_setting(
    "add.partitions.to.txn.retry.backoff.max.ms",
    integer(0, unit=Unit.MS),
    100,
    "How long a partition's leader asks before the producer has to send its records again.",
)

# Limits

TRANSACTIONAL_IDS_MAX = broker_setting(
    "ottla.transactional.ids.max",
    integer(1),
    100_000,
    "The maximum number of transactional ids per partition of the transaction topic.",
)
TRANSACTION_PARTITIONS_MAX = broker_setting(
    "ottla.transaction.partitions.max",
    integer(1),
    10_000,
    "The maximum number of partitions in one transaction.",
)
PENDING_OFFSETS_MAX = broker_setting(
    "ottla.pending.offsets.max",
    integer(1),
    100_000,
    "The maximum number of offsets in open transactions per partition of the offsets topic, beyond "
    "which clients wait until a transaction ends.",
)

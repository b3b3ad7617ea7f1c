"""One replica of this broker: partition state, log, topic settings and parked requests."""

from dataclasses import dataclass, field

from ottla.metadata.topic_names import is_internal
from ottla.metrics.meters import TopicCounters
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.verification_guards import VerificationGuards
from ottla.replication.partition import Partition
from ottla.replication.purgatory import WaitingRoom
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log

NOT_COMPACTED = CompactionRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """The retention settings of a topic; -1 means no limit."""

    retention_ms: int
    retention_bytes: int
    deletes: bool
    file_delete_delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """The settings of a topic, grouped by the part of the broker that uses them."""

    admission: AdmissionRules
    log: LogConfig
    retention: RetentionRules
    compaction: CompactionRules = NOT_COMPACTED


@dataclass(slots=True, eq=False)
class Replica:
    """`log` is created at the first append. Until then the partition is empty."""

    name: TopicPartition
    partition: Partition
    rules: TopicRules
    log: Log | None = None
    # The log exists and could not be opened.
    is_unusable: bool = field(default=False, kw_only=True)
    waiting: WaitingRoom = field(default_factory=WaitingRoom, kw_only=True)
    # The appends that wait for the verification of their transaction.
    verifications: VerificationGuards = field(default_factory=VerificationGuards, kw_only=True)
    # The metrics of its topic, once something was counted.
    counters: TopicCounters | None = field(default=None, kw_only=True)
    # Only the broker writes to internal topics.
    is_internal: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_internal = is_internal(self.name.topic)

    @property
    def start_offset(self) -> int:
        return self.log.start_offset if self.log else 0

    @property
    def end_offset(self) -> int:
        return self.log.end_offset if self.log else 0

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: read_committed consumers stop there."""
        if self.log is None:
            return 0
        return self.log.producers.last_stable_offset(self.partition.high_watermark)

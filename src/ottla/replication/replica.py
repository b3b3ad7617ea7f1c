"""One partition of this broker: what is decided about it, its log, its rules, who waits for it."""

from dataclasses import dataclass, field

from ottla.metadata.topic_names import is_internal
from ottla.metrics.meters import TopicCounters
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.purgatory import WaitingRoom
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log

NOT_COMPACTED = CompactionRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """When whole segments go: -1 is never."""

    retention_ms: int
    retention_bytes: int
    deletes: bool
    file_delete_delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """A topic's settings in the form in which each part obeys them."""

    admission: AdmissionRules
    log: LogConfig
    retention: RetentionRules
    compaction: CompactionRules = NOT_COMPACTED


@dataclass(slots=True, eq=False)
class Replica:
    """`log` is made at the first append: until then the partition is empty."""

    name: TopicPartition
    partition: Partition
    rules: TopicRules
    log: Log | None = None
    # There is a log, but it could not be opened.
    is_unusable: bool = False
    waiting: WaitingRoom = field(default_factory=WaitingRoom)
    # Its topic's, once somebody has counted something.
    counters: TopicCounters | None = None
    # Written by the broker alone.
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
        """Where a reader of committed transactions must stop."""
        if self.log is None:
            return 0
        return self.log.producers.last_stable_offset(self.partition.high_watermark)

"""One replica of this broker: partition state, log, topic settings and parked requests."""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.topic_names import is_internal
from ottla.metadata.values import Incarnation
from ottla.metrics.meters import TopicCounters
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.commit_queue import CommitQueue
from ottla.replication.append.verification_guards import VerificationGuards
from ottla.replication.isr import IsrCandidates, is_candidate
from ottla.replication.partition import Partition
from ottla.replication.purgatory import WaitingRoom
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from ottla.storage.producers.entry import NO_EPOCH

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
    # Appends, which wait for the high watermark.
    commits: CommitQueue = field(default_factory=CommitQueue, kw_only=True)
    # Consumers, which wait for the high watermark.
    waiting: WaitingRoom = field(default_factory=WaitingRoom, kw_only=True)
    # Followers, which wait for appends.
    waiting_followers: WaitingRoom = field(default_factory=WaitingRoom, kw_only=True)
    # The appends that wait for the verification of their transaction.
    verifications: VerificationGuards = field(default_factory=VerificationGuards, kw_only=True)
    # Told of followers that may join the ISR; None if this broker has no peers.
    isr_candidates: IsrCandidates | None = field(default=None, kw_only=True)
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

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """The epoch of the last coordinator that wrote a marker of the producer; -1 without one."""
        entry = None if self.log is None else self.log.producers.get(producer_id)
        return NO_EPOCH if entry is None else entry.coordinator_epoch

    def fetched_by(self, follower: Incarnation, offset: int, start_offset: int) -> None:
        """A follower has everything before `offset`: the high watermark may move."""
        partition = self.partition
        before, known = partition.high_watermark, partition.followers.get(follower.broker_id)
        if known is None or known.start_offset != start_offset:
            # DeleteRecords waits for it.
            self.waiting.wake_all()
        if partition.fetched(follower, offset, start_offset):
            self.high_watermark_moved(before)
        if (
            follower not in partition.isr
            and self.isr_candidates is not None
            and is_candidate(partition, follower)
        ):
            self.isr_candidates.put(self)

    def high_watermark_moved(self, before: int) -> None:
        """Tells those who wait for it. Followers learn of it with their next fetch."""
        after = self.partition.high_watermark
        if self.commits.waiters:
            self.commits.moved(after)
        for follower in self.waiting_followers.watchers:
            follower.count(0)
        watchers = self.waiting.watchers
        if not watchers:
            return
        size_bytes = None if self.log is None else self.log.bytes_between(before, after)
        if size_bytes is None:
            self.waiting.wake_all()
        elif self.last_stable_offset == after:
            self.waiting.count(size_bytes)
        else:
            self.waiting.count_unstable(size_bytes)

    def leadership_lost(self) -> None:
        """Refuses the appends that wait: their leader epoch is over, and others may differ."""
        if self.commits.waiters:
            self.commits.fail(
                PeerError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader epoch of the append is over"
                )
            )
        self.wake_all()

    def why_not_committed(self) -> PeerError | None:
        """Why appended records are not committed soon: the ISR is too small."""
        partition = self.partition
        if partition.is_in_sync:
            return None
        return PeerError(
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            f"{len(partition.isr)} in sync where {partition.min_isr_in_force} are needed",
        )

    def wake_all(self) -> None:
        """Has all parked requests check again: the partition has another leader, ISR or state."""
        self.waiting.wake_all()
        self.waiting_followers.wake_all()

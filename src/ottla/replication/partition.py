"""The state of one partition on a broker: leader, ISR and high watermark. Does no I/O.

The high watermark is the smallest log end offset of the in-sync replicas. Consumers read below it,
and `acks=all` waits for it. It does not move while the ISR is smaller than `min.insync.replicas`.
"""

from ottla.errors import ErrorCode, PeerError
from ottla.metadata import records
from ottla.metadata.values import Incarnation
from ottla.protocol.primitives import NO_LEADER_EPOCH, Uuid
from ottla.replication.local_broker import LocalBroker


class Partition:
    """Changes by `assign`, with records of the metadata log, and by `appended`."""

    __slots__ = (
        "_me",
        "end_offset",
        "epoch_start_offset",
        "high_watermark",
        "index",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "min_isr",
        "partition_epoch",
        "replicas",
        "topic_id",
    )

    def __init__(self, topic_id: Uuid, index: int, me: LocalBroker) -> None:
        self.topic_id = topic_id
        self.index = index
        self.leader: Incarnation | None = None
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[Incarnation, ...] = ()
        self.min_isr = 1
        self.high_watermark = 0
        # The log end offset of the last `appended`.
        self.end_offset = 0
        self.epoch_start_offset = 0
        self._me = me
        # Kept as a field, because every request reads it.
        self.is_leader = False

    @property
    def is_committed_to_epoch(self) -> bool:
        """Whether all records of earlier leaders are committed. Only then is the end known."""
        return self.high_watermark >= self.epoch_start_offset

    def assign(self, record: records.Partition, end_offset: int) -> bool:
        """Takes a record of the metadata log. True if this broker begins to lead a new epoch."""
        leads = self._me.leads_as(record.leader)
        begins = leads and (not self.is_leader or record.leader_epoch > self.leader_epoch)
        self.leader = record.leader
        self.is_leader = leads
        self.leader_epoch = record.leader_epoch
        self.partition_epoch = record.partition_epoch
        self.replicas = record.replicas
        self.isr = record.isr
        self.min_isr = record.min_isr
        if begins:
            self.epoch_start_offset = end_offset
        self.appended(end_offset)
        return begins

    def appended(self, end_offset: int) -> bool:
        """Takes the new log end offset. True if the high watermark moved."""
        self.end_offset = end_offset
        if end_offset <= self.high_watermark or not self.is_leader or not self.commits_alone:
            return False
        self.high_watermark = end_offset
        return True

    @property
    def commits_alone(self) -> bool:
        """Whether the leader is the whole ISR and that satisfies `min.insync.replicas`."""
        return len(self.isr) == 1 and (self.min_isr <= 1 or self.min_isr_in_force <= 1)

    @property
    def can_be_led_elsewhere(self) -> bool:
        """Whether this broker leads, and another one is in sync."""
        return self.is_leader and len(self.isr) > 1

    def resign(self) -> None:
        """This broker stops leading: the partition is no longer here, or the session was lost."""
        self.leader = None
        self.is_leader = False

    @property
    def min_isr_in_force(self) -> int:
        """`min.insync.replicas`, at most the number of replicas."""
        return min(self.min_isr, len(self.replicas))

    def check_leadership(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Raises PeerError unless this broker leads the partition.

        A leader epoch that the client sent must be the current one. An older epoch is fenced; a
        newer one is of an election that this broker has not seen yet.
        """
        if current_leader_epoch != NO_LEADER_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise PeerError(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"leader epoch {current_leader_epoch} is over, {self.leader_epoch} has begun",
                )
            raise PeerError(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"leader epoch {current_leader_epoch} is not known here, {self.leader_epoch} is",
            )
        if not self.is_leader:
            raise PeerError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition"
            )

    def check_in_sync(self) -> None:
        """Raises PeerError if the ISR is too small for `acks=all`."""
        if len(self.isr) < self.min_isr_in_force:
            raise PeerError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} in sync where {self.min_isr_in_force} are needed",
            )

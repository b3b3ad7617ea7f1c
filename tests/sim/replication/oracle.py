"""Checks of all replicas of a cluster, beside those of its metadata.

2. Equal (offset, leader epoch) means equal bytes, over all replicas that ever existed.
3. A committed record is in the log of every later leader. Members of ISR and ELR keep it.
4. The high watermark is at most the least log end offset of the committed ISR, and never falls.
5. A committed offset keeps its record.
8. No (producer id, epoch, sequence) is in a log twice.
13. A topic begins above the leader epochs of the deleted topics of its name.

A record that is acknowledged with `acks=all`, or read, is a committed one. `Losses` says where
nothing is promised.
"""

from collections.abc import Callable

from ottla.metadata.image import Image
from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.records import Record, TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica
from ottla.storage.log.log import Log
from tests.sim.cluster.oracle import Oracle, PartitionKey, _all_partitions, _Tail
from tests.sim.replication.first_epochs import FirstEpochs
from tests.sim.replication.ghost import GhostPartition, check_producers
from tests.sim.replication.losses import Losses
from tests.sim.replication.stored_batches import StoredBatch, stored_batches


def key_of(partition: Partition) -> PartitionKey:
    return partition.topic_id, partition.index


def has_sequences(replica: Replica) -> bool:
    """Whether the batches of producers are numbered there: offsets in a transaction are not."""
    return replica.name.topic != CONSUMER_OFFSETS


class ReplicationOracle(Oracle):
    """As of `Oracle`, its callbacks run inside brokers, and `check` raises what they found."""

    def __init__(self, *, is_flushed: bool = False) -> None:
        """With `is_flushed` every message is flushed before it is acknowledged."""
        super().__init__()
        self.losses = Losses(is_flushed=is_flushed)
        # By partition: where the last acknowledged record ends that is promised.
        self._acknowledged_ends: dict[PartitionKey, int] = {}
        # By partition: the largest offset up to which somebody may have deleted records.
        self.deleted_to: dict[PartitionKey, int] = {}
        # Called with each partition that a broker begins to lead, and with the broker.
        self.on_election: list[Callable[[PartitionKey, int], None]] = []
        # Called with each partition whose leader appends to its log, and with the leader.
        self.on_append: list[Callable[[PartitionKey, int], None]] = []
        self.commits = 0
        self.elections = 0
        self.truncations = 0
        self._first_epochs = FirstEpochs()
        self._ghosts: dict[PartitionKey, GhostPartition] = {}
        # The newest replica of each broker, of its present life or the last one.
        self._replicas: dict[tuple[PartitionKey, int], Replica] = {}
        # The replicas of all logs that were ever open.
        self._of_log: dict[Log, Replica] = {}

    def ghost(self, key: PartitionKey) -> GhostPartition:
        if key not in self._ghosts:
            self._ghosts[key] = GhostPartition(f"{key[0]}-{key[1]}")
        return self._ghosts[key]

    def replica(self, key: PartitionKey, broker_id: int) -> Replica | None:
        return self._replicas.get((key, broker_id))

    # The metadata

    def loaded(self, process: str, image: Image) -> None:
        super().loaded(process, image)
        for record in _all_partitions(image):
            self.losses.recorded(record)

    def applied(self, process: str, image: Image, entry: Entry) -> None:
        super().applied(process, image, entry)
        for record in entry.records:
            if isinstance(record, PartitionRecord):
                self.losses.recorded(record)
            elif isinstance(record, TopicDeleted):
                self.losses.deleted(record.topic_id)

    def _take_record(self, tail: _Tail, record: Record) -> None:
        super()._take_record(tail, record)
        self._fail_if(13, self._first_epochs.why_wrong(record))

    def power_lost(self, broker_id: int, zxid: int) -> list[PartitionKey]:
        """The partitions that are excused now, in whole or in part."""
        excused = self.losses.power_lost(broker_id, zxid)
        for key in excused:
            if not self.losses.is_flushed:
                self._acknowledged_ends.pop(key, None)
            self.ghost(key).excuse(self._acknowledged_ends.get(key, 0))
        return excused

    # The replicas

    def opened(self, replica: Replica) -> None:
        """A broker has a replica, with the log that its recovery left."""
        partition = replica.partition
        self._replicas[key_of(partition), partition._me.broker_id] = replica

    def written(self, log: Log, batches: list[StoredBatch]) -> None:
        """Batches were appended to a log, by a leader or by a follower."""
        replica = self._of(log)
        if replica is None:
            return
        key = key_of(replica.partition)
        ghost = self.ghost(key)
        for batch in batches:
            self._fail_if(2, ghost.write(batch))
        if replica.partition.is_leader:
            for tell in list(self.on_append):
                tell(key, replica.partition._me.broker_id)

    def truncated(self, log: Log, before: int) -> None:
        """A log that ended at `before` ends earlier."""
        self.truncations += 1
        replica = self._of(log)
        if replica is None:
            return
        key, broker_id = key_of(replica.partition), replica.partition._me.broker_id
        record, ghost = self.losses.newest.get(key), self.ghost(key)
        me = replica.partition._me.incarnation
        is_eligible = record is not None and me in record.isr + record.elr
        if is_eligible and log.end_offset < ghost.committed_end:
            self._fail(
                3,
                f"{ghost.name}: broker {broker_id} may lead, and truncates from {before} to"
                f" {log.end_offset}, below {ghost.committed_end}, which was committed",
            )

    def begins_to_lead(self, partition: Partition) -> None:
        self.elections += 1
        key = key_of(partition)
        for tell in list(self.on_election):
            tell(key, partition._me.broker_id)
        replica, ghost = self.replica(key, partition._me.broker_id), self.ghost(key)
        if replica is None or replica.is_unusable or (replica.log and replica.log.offline):
            return
        batches = stored_batches(replica.log) if replica.log else []
        for batch in batches:
            self._fail_if(2, ghost.write(batch))
        who = f"broker {partition._me.broker_id} leads in epoch {partition.leader_epoch}"
        missing = ghost.check_has_committed(batches, replica.start_offset, partition.leader_epoch)
        self._fail_if(3, missing, who)
        if replica.start_offset > self.deleted_to.get(key, 0):
            self._fail(3, f"{ghost.name}: nobody deleted up to {replica.start_offset}; {who}")
        if has_sequences(replica):
            self._fail_if(8, check_producers(ghost.name, batches), who)

    def high_watermark_moved(self, partition: Partition, before: int) -> None:
        key = key_of(partition)
        ghost = self.ghost(key)
        if partition.high_watermark < before:
            if not self.losses.interruptions(key):
                self._fail(
                    4,
                    f"{ghost.name}: the high watermark of broker {partition._me.broker_id} falls"
                    f" from {before} to {partition.high_watermark}",
                )
        elif partition.is_leader:
            self.commits += 1
            self._check_least_end(key, partition)
            self._commit(key, partition, before)

    def _check_least_end(self, key: PartitionKey, partition: Partition) -> None:
        record = self.losses.newest.get(key)
        if record is None or record.leader_epoch != partition.leader_epoch:
            return
        for member in record.isr:
            replica = self.replica(key, member.broker_id)
            if replica is None or self.losses.is_loser(key, member.broker_id):
                continue
            if replica.is_unusable or (replica.log is not None and replica.log.offline):
                continue
            if replica.end_offset < partition.high_watermark:
                self._fail(
                    4,
                    f"{self.ghost(key).name}: the high watermark of broker"
                    f" {partition._me.broker_id} is {partition.high_watermark}, and broker"
                    f" {member.broker_id} of the ISR ends at {replica.end_offset}",
                )

    def _commit(self, key: PartitionKey, partition: Partition, before: int) -> None:
        replica, ghost = self.replica(key, partition._me.broker_id), self.ghost(key)
        log = None if replica is None else replica.log
        if log is None:
            return
        for offset in range(max(before, log.start_offset), partition.high_watermark):
            epoch = log.epochs.epoch_at(offset)
            reason = ghost.commit(offset, epoch, committed_in=partition.leader_epoch)
            self._fail_if(5, reason, f"by broker {partition._me.broker_id}")

    def acknowledged(self, key: PartitionKey, end_offset: int) -> None:
        """A producer was told that its batch before this offset is committed."""
        ghost = self.ghost(key)
        self._acknowledged_ends[key] = max(self._acknowledged_ends.get(key, 0), end_offset)
        if end_offset > max(ghost.committed_end, self._leaders_high_watermark(key)):
            self._fail(3, f"{ghost.name}: {end_offset} is acknowledged, and not committed")

    def _leaders_high_watermark(self, key: PartitionKey) -> int:
        return max(
            (
                replica.high_watermark
                for (of, _), replica in self._replicas.items()
                if of == key and replica.partition.is_leader
            ),
            default=0,
        )

    def _of(self, log: Log) -> Replica | None:
        """The replica of a log; None for one that no replica has yet."""
        if log not in self._of_log:
            for replica in self._replicas.values():
                if replica.log is log:
                    self._of_log[log] = replica
        return self._of_log.get(log)

    def _fail_if(self, number: int, reason: str | None, who: str = "") -> None:
        if reason is not None:
            self._fail(number, f"{reason}; {who}" if who else reason)

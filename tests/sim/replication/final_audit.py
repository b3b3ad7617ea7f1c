"""What must be true of all replicas once nothing goes wrong any more (invariants 11 and 14)."""

from collections.abc import Mapping, Sequence

from ottla.coordinators.runtime.shard import Shard
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.replication.replica import Replica
from ottla.storage.log.log import Log
from tests.sim.cluster.oracle import InvariantBroken, PartitionKey, _all_partitions
from tests.sim.replication.ghost import check_producers
from tests.sim.replication.oracle import ReplicationOracle
from tests.sim.replication.stored_batches import StoredBatch, batches_in, stored_batches


def not_in_sync(image: Image) -> list[str]:
    """The partitions of which not all replicas are in the ISR."""
    return [
        f"{record.topic_id}-{record.index}: ISR {[each.broker_id for each in record.isr]} of"
        f" {list(record.replicas)}"
        for record in _all_partitions(image)
        if sorted(each.broker_id for each in record.isr) != sorted(record.replicas)
    ]


def check_replicas(oracle: ReplicationOracle, image: Image) -> int:
    """All replicas of every partition are one. Returns the number of compared bytes."""
    compared_bytes = 0
    for record in _all_partitions(image):
        key = record.topic_id, record.index
        replicas = {each: oracle.replica(key, each) for each in record.replicas}
        compared_bytes += _check_partition(
            oracle, key, record, {each: found for each, found in replicas.items() if found}
        )
    return compared_bytes


def _check_partition(
    oracle: ReplicationOracle,
    key: PartitionKey,
    record: Partition,
    replicas: Mapping[int, Replica],
) -> int:
    name = f"{key[0]}-{key[1]}"
    assert record.leader is not None
    leader = replicas[record.leader.broker_id]
    # A follower takes over the log start offset with its next checkpoint.
    start_offset = max(replica.start_offset for replica in replicas.values())
    committed = range(start_offset, leader.high_watermark)
    expected = _bytes_of(leader, committed)
    for broker_id, replica in replicas.items():
        batches = stored_batches(replica.log) if replica.log else []
        missing = oracle.ghost(key).check_has_committed(
            batches, replica.start_offset, record.leader_epoch
        )
        if missing is not None:
            raise InvariantBroken(3, f"{missing}; on broker {broker_id}")
        repeated = check_producers(name, batches)
        if repeated is not None:
            raise InvariantBroken(8, f"{repeated}; on broker {broker_id}")
        if _bytes_of(replica, committed) != expected:
            raise InvariantBroken(
                2, f"{name}: the logs of brokers {broker_id} and {record.leader.broker_id} differ"
            )
        if replica.log is not None:
            _check_epochs(f"{name} on broker {broker_id}", replica.log, batches)
            _check_lookups(name, broker_id, replica.log)
        _check_nothing_parked(name, broker_id, replica)
    return len(expected) * len(replicas)


def _bytes_of(replica: Replica, offsets: range) -> bytes:
    """All batches that end within these offsets."""
    if replica.log is None:
        return b""
    return b"".join(
        batch.content
        for batch in stored_batches(replica.log)
        if batch.header.last_offset in offsets
    )


def _check_epochs(name: str, log: Log, batches: Sequence[StoredBatch]) -> None:
    for batch in batches:
        offset = max(batch.header.base_offset, log.start_offset)
        if offset > batch.header.last_offset:
            continue
        epoch = log.epochs.epoch_at(offset)
        if epoch != batch.header.partition_leader_epoch:
            raise InvariantBroken(
                2,
                f"{name}: offset {offset} is of leader epoch"
                f" {batch.header.partition_leader_epoch}, and the log's epochs say {epoch}",
            )


def _check_lookups(name: str, broker_id: int, log: Log) -> None:
    for segment in log.segments:
        position = 0
        content = segment.file.read_at(0, segment.file.size())
        for batch in batches_in(content):
            for offset in {batch.header.base_offset, batch.header.last_offset}:
                found = segment.find(offset)
                if found is None or (found.position, found.header) != (position, batch.header):
                    raise InvariantBroken(
                        14,
                        f"{name} on broker {broker_id}: offset {offset} is at {position}, and is"
                        f" found at {found}",
                    )
            position += batch.header.size


def _check_nothing_parked(name: str, broker_id: int, replica: Replica) -> None:
    # A coordinator's shard watches the partition for as long as it lives.
    watchers = [each for each in replica.waiting.watchers if not isinstance(each, Shard)]
    if watchers or len(replica.commits):
        raise InvariantBroken(11, f"{name}: requests of clients are parked on broker {broker_id}")

"""The partitions that the controller's gauges count."""

from ottla.broker.node.controller_gauges import PartitionCounts, count_partitions
from ottla.metadata.records import Partition
from ottla.metadata.values import Incarnation
from ottla.protocol.primitives import Uuid


def partition(leader: Incarnation | None) -> Partition:
    return Partition(
        topic_id=Uuid(bytes(16)),
        index=0,
        replicas=(1, 2),
        leader=leader,
        leader_epoch=3,
        isr=() if leader is None else (leader,),
        min_isr=1,
        partition_epoch=0,
    )


def test_a_partition_is_imbalanced_unless_its_first_replica_leads() -> None:
    preferred, other = partition(Incarnation(1, 10)), partition(Incarnation(2, 20))
    counts = count_partitions([preferred, other, partition(None)], PartitionCounts())
    assert counts == PartitionCounts(partitions=3, offline=1, imbalanced=2)
    assert count_partitions([preferred], counts) == (4, 1, 2)

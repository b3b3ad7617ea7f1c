"""The partitions that the controller's gauges count."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ottla.broker.node.controller_gauges import (
    SLICE_PARTITIONS_MAX,
    ControllerGauges,
    PartitionCounts,
    count_partitions,
)
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Topic
from ottla.metadata.values import Incarnation
from ottla.metrics.meters import ControllerMeter
from ottla.protocol.primitives import Uuid
from tests.sim.seams.loop import run

TOPIC_ID = Uuid(b"the topic's id..")


def partition(leader: Incarnation | None) -> Partition:
    return Partition(
        topic_id=TOPIC_ID,
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


def test_more_partitions_than_one_slice_are_all_counted() -> None:
    image, count = Image(), 2 * SLICE_PARTITIONS_MAX + 1
    image.apply(Topic("events", TOPIC_ID))
    for index in range(count):
        leader = Incarnation(1, 10) if index else None
        image.apply(replace(partition(leader), index=index))
    publisher: Any = SimpleNamespace(image=image, is_controller=True)
    meter = ControllerMeter()
    run(ControllerGauges(meter, publisher).refresh(("events", "deleted meanwhile")))
    assert (meter.partitions, meter.offline_partitions) == (count, 1)
    assert meter.preferred_replica_imbalance == 1

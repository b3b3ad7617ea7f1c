"""The controller's gauges: partitions of the whole cluster without a leader, or led by another
replica than the first.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Partition
from ottla.metadata.values import BrokerState
from ottla.metrics.meters import ControllerMeter

# The partitions per turn of the event loop: a cluster may have ten thousand.
SLICE_PARTITIONS_MAX = 1_000


class PartitionCounts(NamedTuple):
    partitions: int = 0
    # Without a leader.
    offline: int = 0
    # Without a leader, or with another one than the first replica.
    imbalanced: int = 0


def count_partitions(partitions: Iterable[Partition], before: PartitionCounts) -> PartitionCounts:
    """Adds these partitions to the counts before."""
    count, offline, imbalanced = before
    for partition in partitions:
        leader = partition.leader
        count += 1
        offline += leader is None
        imbalanced += leader is None or leader.broker_id != partition.replicas[0]
    return PartitionCounts(count, offline, imbalanced)


class ControllerGauges:
    """Refreshes the meter of a broker. All of it is zero while another is the controller."""

    def __init__(self, meter: ControllerMeter, publisher: Publisher) -> None:
        self._meter = meter
        self._publisher = publisher
        self._counts = PartitionCounts()
        # The image that was counted; counted again once it has changed.
        self._counted: tuple[Image, int] | None = None

    async def refresh(self, topics: Sequence[str]) -> None:
        """`topics` are the names of all topics."""
        meter = self._meter
        if not self._publisher.is_controller:
            _show(meter, PartitionCounts())
            meter.active_controllers = meter.active_brokers = meter.fenced_brokers = 0
            meter.topics = 0
            return
        image = self._publisher.image
        if (
            self._counted is None
            or self._counted[0] is not image
            or self._counted[1] != image.offset
        ):
            self._counted = image, image.offset
            self._counts = await _count_in_slices(image, topics)
        states = [broker.state for broker in image.brokers.values()]
        meter.active_controllers = 1
        meter.fenced_brokers = states.count(BrokerState.GONE)
        meter.active_brokers = len(states) - meter.fenced_brokers
        meter.topics = len(topics)
        _show(meter, self._counts)


def _show(meter: ControllerMeter, counts: PartitionCounts) -> None:
    meter.partitions, meter.offline_partitions, meter.preferred_replica_imbalance = counts


async def _count_in_slices(image: Image, topics: Sequence[str]) -> PartitionCounts:
    counts = PartitionCounts()
    partitions = _every_partition(image, topics)
    while chunk := list(islice(partitions, SLICE_PARTITIONS_MAX)):
        counts = count_partitions(chunk, counts)
        await asyncio.sleep(0)
    return counts


def _every_partition(image: Image, topics: Sequence[str]) -> Iterator[Partition]:
    """The partitions of these topics, which may be deleted in between."""
    for name in topics:
        topic = image.topic(name)
        if topic is not None:
            yield from tuple(image.partitions(topic.topic_id))

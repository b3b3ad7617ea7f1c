"""The partitions that change because brokers came, went, or drain. Decides, does no I/O.

Everything follows from the image, so that the next controller completes what the last one began.
"""

from collections.abc import Collection, Iterable, Iterator

from ottla.metadata.controller.partition_update import has_serving_leader, is_untouched, updated
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import PartitionId


def outdated_partitions(image: Image, brokers: Collection[int] | None) -> Iterator[PartitionId]:
    """The partitions that may not agree with the image's brokers, changes of leader first.

    Only partitions with a replica on these brokers, or all. It is for `partition_updates` to decide
    which of them change. The image may change between two steps of the iterator.
    """
    later: list[PartitionId] = []
    for partition in _partitions(image):
        if brokers is not None and not any(each in brokers for each in partition.replicas):
            continue
        if is_untouched(partition, image.brokers):
            continue
        where = PartitionId(partition.topic_id, partition.index)
        if has_serving_leader(partition, image.brokers):
            later.append(where)
        else:
            yield where
    yield from later


def partition_updates(image: Image, ids: Iterable[PartitionId]) -> list[Partition]:
    """New records of these partitions, except those that are up to date or do not exist."""
    records: list[Partition] = []
    for where in ids:
        partition = image.partition(*where)
        if partition is None:
            continue
        after = updated(partition, image.brokers)
        if after is not partition:
            records.append(after)
    return records


def _partitions(image: Image) -> Iterator[Partition]:
    """All partitions, by topic name and index, also while the image changes."""
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        if topic is None:
            continue
        index = 0
        while (partition := image.partition(topic.topic_id, index)) is not None:
            yield partition
            index += 1

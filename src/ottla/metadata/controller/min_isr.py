"""Updates `min.insync.replicas` in the partitions' records when the settings change.

Each partition's record has it, so that its leader and the controller use the same value.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ottla.metadata.configs import topic_configs
from ottla.metadata.controller.partition_update import Brokers, settled, successor
from ottla.metadata.controller.reassignment import completed
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Record, Topic
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.replicas import MIN_INSYNC_REPLICAS


def outdated_partitions(
    image: Image, topics: Iterable[str], settings: BrokerSettings
) -> Iterator[tuple[Uuid, int]]:
    """The partitions of these topics with another value in their records."""
    for topic in filter(None, map(image.topic, topics)):
        min_isr = _in_force(image, topic, settings)
        for partition in image.partitions(topic.topic_id):
            if partition.min_isr != min_isr:
                yield topic.topic_id, partition.index


def corrections(
    image: Image, partitions: Iterable[tuple[Uuid, int]], settings: BrokerSettings
) -> list[Record]:
    """New records of the partitions that still exist and have another value."""
    records: list[Record] = []
    for topic_id, index in partitions:
        topic, partition = image.topic_by_id(topic_id), image.partition(topic_id, index)
        if topic is None or partition is None:
            continue
        min_isr = _in_force(image, topic, settings)
        if partition.min_isr != min_isr:
            records.append(with_min_isr(partition, min_isr, image.brokers))
    return records


def with_min_isr(partition: Partition, min_isr: int, brokers: Brokers) -> Partition:
    """The partition with another `min_isr`.

    Its eligible leader replicas stay if the ISR is smaller than the new value: no record was
    committed since they left the ISR. Else records are committed without them from now on, and they
    are eligible no longer; but not while nobody leads, since one of them may be the only candidate.
    A reassignment that waited for `min_isr` replicas may be complete.
    """
    changed = completed(replace(partition, min_isr=min_isr))
    return successor(partition, settled(changed, brokers))


def _in_force(image: Image, topic: Topic, settings: BrokerSettings) -> int:
    return topic_configs(image, topic.name, settings)[MIN_INSYNC_REPLICAS]

"""`min.insync.replicas` stands in each partition's record, so that its leader and the controller go
by the same one. Here the records follow the settings.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from ottla.metadata.configs import topic_configs
from ottla.metadata.controller.broker_restart import RECORDS_AN_ENTRY_MAX
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Record, Topic
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.replicas import MIN_INSYNC_REPLICAS

# The settings in force whenever it is called.
SettingsNow = Callable[[], BrokerSettings]


async def agree_on_min_isr(
    publisher: Publisher, topics: Iterable[str], settings_now: SettingsNow
) -> None:
    """The records of these topics' partitions say what is in force now, committed.

    Too many partitions for one entry are changed in several; a start finishes what a crash left.
    """
    stale = iter(list(_outdated(publisher.image, topics, settings_now())))
    while portion := list(islice(stale, RECORDS_AN_ENTRY_MAX)):
        await _commit(publisher, portion, settings_now)


async def _commit(
    publisher: Publisher, partitions: Sequence[tuple[Uuid, int]], settings_now: SettingsNow
) -> None:
    await publisher.commit(lambda image: (corrections(image, partitions, settings_now()), None))


def corrections(
    image: Image, partitions: Iterable[tuple[Uuid, int]], settings: BrokerSettings
) -> list[Record]:
    """New records of those partitions that still are there and say something else."""
    records: list[Record] = []
    for topic_id, index in partitions:
        topic, partition = image.topic_by_id(topic_id), image.partition(topic_id, index)
        if topic is None or partition is None:
            continue
        min_isr = _in_force(image, topic, settings)
        if partition.min_isr != min_isr:
            # Who was eligible to lead was so by the old rule.
            records.append(
                replace(
                    partition,
                    min_isr=min_isr,
                    elr=(),
                    partition_epoch=partition.partition_epoch + 1,
                )
            )
    return records


def _outdated(
    image: Image, topics: Iterable[str], settings: BrokerSettings
) -> Iterator[tuple[Uuid, int]]:
    for topic in filter(None, map(image.topic, topics)):
        min_isr = _in_force(image, topic, settings)
        for partition in image.partitions(topic.topic_id):
            if partition.min_isr != min_isr:
                yield topic.topic_id, partition.index


def _in_force(image: Image, topic: Topic, settings: BrokerSettings) -> int:
    return topic_configs(image, topic.name, settings)[MIN_INSYNC_REPLICAS]

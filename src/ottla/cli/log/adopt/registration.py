"""Registers adopted topics in the metadata, which makes them Ottla's topics."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from ottla.cli.log.adopt.partition_recovery import RecoveredPartition
from ottla.cli.log.adopt.plan import AdoptedTopic
from ottla.cli.log.adopt.survey import SurveyedPartition
from ottla.metadata.embedded.entry_log import PARTITION
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.metadata.incarnation import epoch_of_id, read_incarnation, serving, write_incarnation
from ottla.metadata.records import (
    Broker,
    Config,
    ControllerStarted,
    Partition,
    ProducerIds,
    Record,
    Topic,
)
from ottla.metadata.store import MetadataStore, Registration
from ottla.metadata.values import BrokerState, Incarnation, ResourceKind
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock
from ottla.seams.files import Files

# Safely below the size limit of a metadata entry.
MAX_PARTITIONS_PER_ENTRY = 500

Recovered = Mapping[TopicPartition, RecoveredPartition]


def known_image(files: Files, directory: str, clock: Clock) -> Image:
    """The metadata image of a data directory; empty if there is none yet."""
    if not files.is_dir(f"{directory}/{PARTITION}"):
        return Image()

    async def load() -> Image:
        store = EmbeddedStore.open(files, directory, clock)
        try:
            return Image.of(await store.load())
        finally:
            await store.close()

    return asyncio.run(load())


def register_topics(
    files: Files,
    directory: str,
    clock: Clock,
    *,
    node_id: int,
    topics: Sequence[AdoptedTopic],
    recovered: Recovered,
) -> None:
    """Durable on return. Each topic is registered in one entry, except for partitions beyond the
    limit per entry."""

    async def register() -> None:
        store = EmbeddedStore.open(files, directory, clock)
        try:
            image = Image.of(await store.load())
            member, brokers = await _incarnation(files, directory, clock, store, node_id, image)
            fence = await store.campaign()
            started: list[Record] = [ControllerStarted(fence.epoch, node_id), *brokers]
            for entry in (started, *_entries(topics, recovered, image, member)):
                for record in entry:
                    image.apply(record)
                await store.append(entry, fence)
        finally:
            await store.close()

    asyncio.run(register())


async def _incarnation(
    files: Files, directory: str, clock: Clock, store: MetadataStore, node_id: int, image: Image
) -> tuple[Incarnation, list[Record]]:
    """The broker incarnation in the partitions' ISR until the broker starts, and its record if it
    is new.

    The broker inherits the ISR memberships of the incarnation saved in its directory. A directory
    without one gets an incarnation that was shut down cleanly.
    """
    saved, broker = read_incarnation(files, directory), image.brokers.get(node_id)
    if saved is not None:
        # An earlier version may have adopted topics for a broker that has not started since.
        epoch = epoch_of_id(saved.incarnation_id) if broker is None else broker.epoch
        if epoch is not None:
            return Incarnation(node_id, epoch), []
    incarnation_id = f"adopted-{clock.wall_ms()}"
    registration = Registration(
        broker_id=node_id, incarnation_id=incarnation_id, endpoints=(), rack=None, host="adopted"
    )
    epoch = await store.register(registration)
    write_incarnation(files, directory, serving(incarnation_id, clock.boot_id(), clean=True))
    record = Broker(
        broker_id=node_id,
        epoch=epoch,
        inherits=None,
        endpoints=(),
        rack=None,
        host="adopted",
        state=BrokerState.GONE,
        incarnation_id=incarnation_id,
    )
    return record.incarnation, [record]


def _entries(
    topics: Sequence[AdoptedTopic], recovered: Recovered, image: Image, member: Incarnation
) -> Iterator[list[Record]]:
    # First, because no new producer may get the id of an old one.
    next_id = 1 + max((each.producer_id_max for each in recovered.values()), default=-1)
    if next_id > image.next_producer_id:
        yield [ProducerIds(next_id)]
    for topic in topics:
        partitions = [
            _partition(
                each,
                member,
                max(image.first_epoch(topic.name), recovered[each.partition].leader_epoch),
            )
            for each in topic.partitions
        ]
        head: list[Record] = [Topic(topic.name, topic.topic_id)]
        if topic.is_compacted:
            head.append(Config(ResourceKind.TOPIC, topic.name, "cleanup.policy", "compact"))
        yield [*head, *partitions[:MAX_PARTITIONS_PER_ENTRY]]
        for start in range(MAX_PARTITIONS_PER_ENTRY, len(partitions), MAX_PARTITIONS_PER_ENTRY):
            yield list(partitions[start : start + MAX_PARTITIONS_PER_ENTRY])


def _partition(found: SurveyedPartition, member: Incarnation, epoch_min: int) -> Partition:
    """A partition without a leader. The next leader has an epoch above all epochs in its log."""
    return Partition(
        topic_id=found.topic_id,
        index=found.partition.partition,
        replicas=(member.broker_id,),
        leader=None,
        leader_epoch=max(epoch_min, found.leader_epoch),
        isr=(member,),
        min_isr=1,
        partition_epoch=0,
    )

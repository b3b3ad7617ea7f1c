"""Changes of the metadata that need more than one entry; each is decided on the newest image.

After a crash in between, the next start of the broker or the next controller completes them.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from ottla.metadata.controller import min_isr
from ottla.metadata.controller.broker_restart import (
    Restart,
    broker_started,
    partitions_rejoined,
    returning_partitions,
)
from ottla.metadata.controller.entry_packing import MAX_RECORDS_PER_ENTRY, in_entries
from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.metadata.store import RegisteredBroker
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.settings.broker import BrokerSettings

# Returns the settings in force at the time of the call.
CurrentSettings = Callable[[], BrokerSettings]
PartitionIds = Sequence[tuple[Uuid, int]]


async def start_broker(
    controller: Controller, registered: RegisteredBroker
) -> list[TopicPartition]:
    """Commits the records of a restart; returns the partitions that may have lost records."""

    def find(image: Image) -> tuple[Sequence[Record], PartitionIds]:
        return (), list(returning_partitions(image, registered))

    def rejoin(partitions: PartitionIds, image: Image) -> tuple[Sequence[Record], Restart]:
        restart = partitions_rejoined(image, registered, partitions)
        return restart.records, restart

    def finish(image: Image) -> tuple[Sequence[Record], Restart]:
        restart = broker_started(image, registered)
        return restart.records, restart

    losses: list[TopicPartition] = []
    returning = await controller.commit(find)
    if len(returning) >= MAX_RECORDS_PER_ENTRY:
        # Found once for all entries: each search looks at every partition.
        for portion in in_entries(returning):
            losses += (await controller.commit(partial(rejoin, portion))).possible_losses
    while True:
        restart = await controller.commit(finish)
        losses += restart.possible_losses
        if restart.is_up:
            return losses


async def update_min_isr(
    controller: Controller, topics: Collection[str] | None, current_settings: CurrentSettings
) -> None:
    """Updates `min_isr` of the partitions of these topics, or of all, to `min.insync.replicas`."""

    def find(image: Image) -> tuple[Sequence[Record], PartitionIds]:
        names = image.topic_names if topics is None else topics
        return (), list(min_isr.outdated_partitions(image, names, current_settings()))

    def correct(partitions: PartitionIds, image: Image) -> tuple[Sequence[Record], None]:
        return min_isr.corrections(image, partitions, current_settings()), None

    for portion in in_entries(await controller.commit(find)):
        await controller.commit(partial(correct, portion))

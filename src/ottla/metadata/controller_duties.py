"""Changes of the metadata that take more than one entry: each entry is decided on the newest image.

A crash in between is made up for: by the next start of the broker, or by the next controller.
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
from ottla.metadata.store import Member
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.settings.broker import BrokerSettings

# The settings in force whenever it is called.
SettingsNow = Callable[[], BrokerSettings]
PartitionIds = Sequence[tuple[Uuid, int]]


async def start_broker(controller: Controller, member: Member) -> list[TopicPartition]:
    """A broker is up, committed; the partitions that may have lost something by its return."""

    def find(image: Image) -> tuple[Sequence[Record], PartitionIds]:
        return (), list(returning_partitions(image, member))

    def rejoin(partitions: PartitionIds, image: Image) -> tuple[Sequence[Record], Restart]:
        restart = partitions_rejoined(image, member, partitions)
        return restart.records, restart

    def finish(image: Image) -> tuple[Sequence[Record], Restart]:
        restart = broker_started(image, member)
        return restart.records, restart

    losses: list[TopicPartition] = []
    returning = await controller.commit(find)
    if len(returning) >= MAX_RECORDS_PER_ENTRY:
        # Found once, for all entries: to look for them before each would take a look at every
        # partition each time.
        for portion in in_entries(returning):
            losses += (await controller.commit(partial(rejoin, portion))).possible_losses
    while True:
        restart = await controller.commit(finish)
        losses += restart.possible_losses
        if restart.is_up:
            return losses


async def agree_on_min_isr(
    controller: Controller, topics: Collection[str] | None, settings_now: SettingsNow
) -> None:
    """The partitions of these topics, or of all, say the `min.insync.replicas` that is in force."""

    def find(image: Image) -> tuple[Sequence[Record], PartitionIds]:
        names = image.topic_names if topics is None else topics
        return (), list(min_isr.outdated_partitions(image, names, settings_now()))

    def correct(partitions: PartitionIds, image: Image) -> tuple[Sequence[Record], None]:
        return min_isr.corrections(image, partitions, settings_now()), None

    for portion in in_entries(await controller.commit(find)):
        await controller.commit(partial(correct, portion))

"""Changes of the metadata that need more than one entry; each is decided on the newest image.

After a crash in between, the next controller completes them.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

from ottla.metadata.controller import min_isr
from ottla.metadata.controller.broker_changes import outdated_partitions, partition_updates
from ottla.metadata.controller.broker_registrations import membership_records, up_record
from ottla.metadata.controller.entry_packing import decide_entry, in_entries
from ottla.metadata.controller.preferred_leaders import LeaderBalance, preferred_leader_updates
from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Config, Record
from ottla.metadata.store import RegisteredBroker
from ottla.metadata.values import BrokerState, PartitionId, ResourceKind
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.replicas import MIN_INSYNC_REPLICAS

# Returns the settings in force at the time of the call.
CurrentSettings = Callable[[], BrokerSettings]
PartitionIds = Sequence[PartitionId]

# Less than what an entry may hold: every broker applies an entry in one step.
UPDATED_PER_ENTRY = 150
# Other tasks run after so many partitions of a search through all.
PARTITIONS_PER_STEP = 1_000

# The name of the broker resource with the settings of all brokers.
CLUSTER_WIDE = ""


async def update_brokers(
    publisher: Publisher, registered: Sequence[RegisteredBroker], *, is_first: bool
) -> None:
    """Commits what follows from the brokers that are registered now.

    First their own records, then their partitions, then that the new ones are up. The `is_first`
    update of a controller also completes what the last controller began.
    """

    def record(image: Image) -> tuple[Sequence[Record], list[int]]:
        brokers = membership_records(image, registered)
        records, _ = decide_entry(brokers, lambda broker: ([broker], None))
        return records, [broker.broker_id for broker in brokers[: len(records)]]

    def starting(image: Image) -> tuple[Sequence[Record], list[int]]:
        return (), [
            broker_id
            for broker_id, broker in sorted(image.brokers.items())
            if broker.state is BrokerState.STARTING
        ]

    def finish(broker_id: int, image: Image) -> tuple[Sequence[Record], None]:
        up = up_record(image, broker_id)
        return ((), None) if up is None else ((up,), None)

    is_whole = is_first
    while True:
        changed: list[int] = []
        while recorded := await publisher.commit(record):
            changed += recorded
        if not changed and not is_whole:
            return
        brokers = None if is_whole else frozenset(changed)
        await update_partitions(publisher, brokers)
        for broker_id in await publisher.commit(starting):
            await publisher.commit(partial(finish, broker_id))
        # Once more: a broker that drains before it is up has to be up first.
        is_whole = False


async def update_partitions(publisher: Publisher, brokers: frozenset[int] | None) -> None:
    """Brings the partitions of these brokers, or of all, in line with the state of the brokers.

    New leaders come first, since clients wait for them.
    """

    def update(partitions: PartitionIds, image: Image) -> tuple[Sequence[Record], None]:
        return partition_updates(image, partitions), None

    if brokers is None or brokers:
        outdated = outdated_partitions(publisher.image, brokers)
        for portion in in_entries(outdated, UPDATED_PER_ENTRY):
            await publisher.commit(partial(update, portion))


async def restore_preferred_leaders(publisher: Publisher, imbalance_percent_max: int) -> None:
    """Has preferred replicas lead again, of each broker that lacks more than this percentage."""

    def restore(partitions: PartitionIds, image: Image) -> tuple[Sequence[Record], None]:
        return preferred_leader_updates(image, partitions), None

    balance = LeaderBalance()
    counted = 0
    for name in sorted(publisher.image.topic_names):
        counted += balance.add_topic(publisher.image, name)
        if counted >= PARTITIONS_PER_STEP:
            counted = 0
            await asyncio.sleep(0)
    for portion in in_entries(balance.due(imbalance_percent_max), UPDATED_PER_ENTRY):
        await publisher.commit(partial(restore, portion))


async def record_min_isr(controller: Controller, current_settings: CurrentSettings) -> None:
    """Records `min.insync.replicas` as a setting of the cluster, unless it is one already.

    Otherwise it would depend on the settings of whichever broker becomes the controller.
    """

    def record(image: Image) -> tuple[Sequence[Record], None]:
        name = MIN_INSYNC_REPLICAS.name
        if name in image.configs(ResourceKind.BROKER, CLUSTER_WIDE):
            return (), None
        value = str(current_settings()[MIN_INSYNC_REPLICAS])
        return (Config(ResourceKind.BROKER, CLUSTER_WIDE, name, value),), None

    await controller.commit(record)


async def update_min_isr(
    controller: Controller, topics: Collection[str] | None, current_settings: CurrentSettings
) -> None:
    """Updates `min_isr` of the partitions of these topics, or of all, to `min.insync.replicas`."""

    def find(image: Image) -> tuple[Sequence[Record], PartitionIds]:
        names = image.topic_names if topics is None else topics
        outdated = min_isr.outdated_partitions(image, names, current_settings())
        return (), [PartitionId(*each) for each in outdated]

    def correct(partitions: PartitionIds, image: Image) -> tuple[Sequence[Record], None]:
        return min_isr.corrections(image, partitions, current_settings()), None

    for portion in in_entries(await controller.commit(find)):
        await controller.commit(partial(correct, portion))

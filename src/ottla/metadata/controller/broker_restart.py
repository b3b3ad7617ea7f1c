"""The change of a broker's partitions when it restarts. Decides, does no I/O.

The new incarnation takes over the ISR memberships of the earlier ones that it inherits from: their
disks are intact. If it does not inherit, it may have lost acknowledged records and counts as
unclean. It then becomes the leader only if no other replica can, and the possible loss is reported.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from ottla.metadata.controller.entry_packing import MAX_RECORDS_PER_ENTRY
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition, Record
from ottla.metadata.store import RegisteredBroker
from ottla.metadata.values import BrokerState, Incarnation
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition


class Restart(NamedTuple):
    """The records of a broker's restart, and the partitions that may have lost records by it.

    `is_up` if they include the last one: that of the broker itself.
    """

    records: list[Record]
    possible_losses: list[TopicPartition]
    is_up: bool = False


class Rejoined(NamedTuple):
    """A partition after the restart of a replica, and whether it may have lost records."""

    partition: Partition
    may_have_lost: bool


def is_started(image: Image, registered: RegisteredBroker) -> bool:
    """Whether the image has all records of a broker's restart."""
    broker = image.brokers.get(registered.registration.broker_id)
    return broker is not None and broker.epoch >= registered.broker_epoch


def returning_partitions(image: Image, registered: RegisteredBroker) -> Iterator[tuple[Uuid, int]]:
    """The partitions that the broker's restart changes."""
    me, inherits = registered.incarnation, registered.registration.inherited_epochs
    for _, partition in _replicas_of(image, me.broker_id):
        # An older life is always replaced or taken out: then there is no need to decide how.
        if _older_lives(partition, me) or rejoin(partition, me, inherits).partition != partition:
            yield partition.topic_id, partition.index


def partitions_rejoined(
    image: Image, registered: RegisteredBroker, partitions: Iterable[tuple[Uuid, int]]
) -> Restart:
    """These partitions, if they still exist, with the broker's new incarnation.

    Only the incarnations of this broker change, not those of other replicas.
    """
    me, inherits = registered.incarnation, registered.registration.inherited_epochs
    restart = Restart([], [])
    for topic_id, index in partitions:
        topic, partition = image.topic_by_id(topic_id), image.partition(topic_id, index)
        if topic is None or partition is None:
            continue
        rejoined = rejoin(partition, me, inherits)
        if rejoined.partition != partition:
            epoch = partition.partition_epoch + 1
            restart.records.append(replace(rejoined.partition, partition_epoch=epoch))
        if rejoined.may_have_lost:
            restart.possible_losses.append(TopicPartition(topic.name, index))
    return restart


def broker_started(image: Image, registered: RegisteredBroker) -> Restart:
    """Records of a started broker: its partitions, then the broker itself.

    The broker's own record comes last and shows that the restart is complete. If there are more
    records than one entry holds, it is missing, and the caller has to decide again.
    """
    if is_started(image, registered):
        return Restart([], [], is_up=True)
    due = islice(returning_partitions(image, registered), MAX_RECORDS_PER_ENTRY)
    records, losses, _ = partitions_rejoined(image, registered, due)
    if len(records) == MAX_RECORDS_PER_ENTRY:
        return Restart(records, losses)
    return Restart([*records, _broker_of(registered)], losses, is_up=True)


def _broker_of(registered: RegisteredBroker) -> Broker:
    registration = registered.registration
    return Broker(
        broker_id=registration.broker_id,
        epoch=registered.broker_epoch,
        inherits=registration.inherits,
        endpoints=registration.endpoints,
        rack=registration.rack,
        host=registration.host,
        state=BrokerState.UP,
    )


def rejoin(partition: Partition, me: Incarnation, inherits: Collection[int]) -> Rejoined:
    """The partition with a broker's new incarnation; its partition epoch is not raised.

    It is unchanged if it already has the new incarnation.
    """
    older = _older_lives(partition, me)
    if not older and partition.leader is not None:
        return Rejoined(partition, may_have_lost=False)
    isr, elr, unclean = _memberships(partition, me, older, inherits)
    leader, may_have_lost = partition.leader, False
    if leader is None or leader.broker_id == me.broker_id:
        leader = None
        if me in isr:
            leader = me
        elif me in elr:
            leader, isr, elr = me, (me,), tuple(other for other in elr if other != me)
        elif not isr and not elr and unclean == (me.broker_id,):
            leader, isr, unclean, may_have_lost = me, (me,), (), True
    changed = replace(
        partition,
        leader=leader,
        leader_epoch=partition.leader_epoch + (leader != partition.leader),
        isr=isr,
        elr=elr,
        unclean=unclean,
    )
    return Rejoined(changed, may_have_lost)


def _older_lives(partition: Partition, me: Incarnation) -> list[Incarnation]:
    return [
        each
        for each in partition.isr + partition.elr
        if each.broker_id == me.broker_id and each != me
    ]


def _memberships(
    partition: Partition, me: Incarnation, older: list[Incarnation], inherits: Collection[int]
) -> tuple[tuple[Incarnation, ...], tuple[Incarnation, ...], tuple[int, ...]]:
    """The ISR, the ELR and the unclean replicas, without the broker's older incarnations."""
    # Exactly these epochs: a later one may have served and written records that are missing here.
    if inherits and all(each.broker_epoch in inherits for each in older):
        return (
            tuple(me if each in older else each for each in partition.isr),
            tuple(me if each in older else each for each in partition.elr),
            partition.unclean,
        )
    return (
        tuple(each for each in partition.isr if each not in older),
        tuple(each for each in partition.elr if each not in older),
        (*partition.unclean, me.broker_id) if older else partition.unclean,
    )


def _replicas_of(image: Image, broker_id: int) -> Iterator[tuple[str, Partition]]:
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        if topic is not None:
            for partition in image.partitions(topic.topic_id):
                if broker_id in partition.replicas:
                    yield name, partition

"""The image of a broker that was alone, for a store that counts broker epochs from the start."""

from collections.abc import Mapping
from dataclasses import replace

from ottla.metadata.image import Image
from ottla.metadata.incarnation import id_of_epoch
from ottla.metadata.records import Broker, Partition, Record
from ottla.metadata.values import Incarnation

# Below every epoch that a store gives: ZooKeeper's first transaction is number 1.
REBASED_EPOCH = 0


def rebased(image: Image) -> tuple[Record, ...]:
    """The records of the image, with every broker epoch lowered to REBASED_EPOCH.

    A broker's next incarnation inherits the memberships that it would have inherited before, and no
    other.
    """
    return tuple(_rebased(record, image.brokers) for record in image.snapshot().records)


def _rebased(record: Record, brokers: Mapping[int, Broker]) -> Record:
    if isinstance(record, Broker):
        return replace(
            record,
            epoch=REBASED_EPOCH,
            # The memberships of these epochs have the new one too.
            inherits=None,
            also_inherits=(),
            incarnation_id=record.incarnation_id or id_of_epoch(record.epoch),
        )
    if isinstance(record, Partition):
        return _rebased_partition(record, brokers)
    return record


def _rebased_partition(partition: Partition, brokers: Mapping[int, Broker]) -> Partition:
    isr = _kept(partition.isr, brokers)
    elr = _kept(partition.elr, brokers)
    leader, leader_epoch = partition.leader, partition.leader_epoch
    if leader is not None:
        leader = Incarnation(leader.broker_id, REBASED_EPOCH)
        if leader not in isr:
            leader, leader_epoch = None, leader_epoch + 1
    kept = {member.broker_id for member in (*isr, *elr)}
    # A membership that nobody inherits: its replica may have lost records.
    lost = tuple(
        member.broker_id
        for member in (*partition.isr, *partition.elr)
        if member.broker_id not in kept
    )
    return replace(
        partition,
        isr=isr,
        elr=elr,
        leader=leader,
        leader_epoch=leader_epoch,
        unclean=tuple(dict.fromkeys((*partition.unclean, *lost))),
    )


def _kept(
    members: tuple[Incarnation, ...], brokers: Mapping[int, Broker]
) -> tuple[Incarnation, ...]:
    """The members whose epoch is the broker's own, or one that it inherits."""
    return tuple(
        Incarnation(member.broker_id, REBASED_EPOCH)
        for member in members
        if (broker := brokers.get(member.broker_id)) is not None
        and member.broker_epoch in (broker.epoch, *broker.inherited_epochs)
    )

"""What becomes of a broker's partitions when it comes back. Decides, does no I/O.

Its new incarnation takes the memberships of the ones before it if it inherits from them: what they
had on disk is still there. If it does not inherit, it may have lost what it once acknowledged, and
counts as unclean; it leads such a partition again only where nobody else could know better, and
that is said aloud.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from ottla.metadata.controller.entry_packing import MAX_RECORDS_PER_ENTRY
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition, Record
from ottla.metadata.store import Member
from ottla.metadata.values import BrokerState, Incarnation
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition


class Restart(NamedTuple):
    """The records of a broker's return, and the partitions that may have lost something by it.

    `is_up` with the last of them: the record of the broker itself.
    """

    records: list[Record]
    possible_losses: list[TopicPartition]
    is_up: bool = False


class Rejoined(NamedTuple):
    """A partition after one of its replicas came back, and whether it may have lost something."""

    partition: Partition
    may_have_lost: bool


def is_started(image: Image, member: Member) -> bool:
    """Whether all records of a broker's return are in the image."""
    broker = image.brokers.get(member.registration.broker_id)
    return broker is not None and broker.epoch >= member.broker_epoch


def returning_partitions(image: Image, member: Member) -> Iterator[tuple[Uuid, int]]:
    """The partitions whose records the broker's return changes."""
    me, inherits = member.incarnation, member.registration.inherited_epochs
    for _, partition in _replicas_of(image, me.broker_id):
        # An older life is always replaced or taken out: then there is no need to decide how.
        if _older_lives(partition, me) or rejoin(partition, me, inherits).partition != partition:
            yield partition.topic_id, partition.index


def partitions_rejoined(
    image: Image, member: Member, partitions: Iterable[tuple[Uuid, int]]
) -> Restart:
    """These partitions with the broker's new incarnation, those that are still there.

    Only its own epochs are looked at: the other replicas of a partition stay as they are.
    """
    restart = Restart([], [])
    for topic_id, index in partitions:
        topic, partition = image.topic_by_id(topic_id), image.partition(topic_id, index)
        if topic is None or partition is None:
            continue
        rejoined = rejoin(partition, member.incarnation, member.registration.inherited_epochs)
        if rejoined.partition != partition:
            epoch = partition.partition_epoch + 1
            restart.records.append(replace(rejoined.partition, partition_epoch=epoch))
        if rejoined.may_have_lost:
            restart.possible_losses.append(TopicPartition(topic.name, index))
    return restart


def broker_started(image: Image, member: Member) -> Restart:
    """A broker is up with a new incarnation, and so is all that it can lead.

    The broker's own record comes last: whoever sees it knows that the return is complete. Until
    then, with more records than an entry holds, there is more to be decided.
    """
    if is_started(image, member):
        return Restart([], [], is_up=True)
    due = islice(returning_partitions(image, member), MAX_RECORDS_PER_ENTRY)
    records, losses, _ = partitions_rejoined(image, member, due)
    if len(records) == MAX_RECORDS_PER_ENTRY:
        return Restart(records, losses)
    return Restart([*records, _broker_of(member)], losses, is_up=True)


def _broker_of(member: Member) -> Broker:
    registration = member.registration
    return Broker(
        broker_id=registration.broker_id,
        epoch=member.broker_epoch,
        inherits=registration.inherits,
        endpoints=registration.endpoints,
        rack=registration.rack,
        host=registration.host,
        state=BrokerState.UP,
    )


def rejoin(partition: Partition, me: Incarnation, inherits: Collection[int]) -> Rejoined:
    """The partition with a broker's new incarnation, its partition epoch not yet counted on.

    It is left as it is if it has the new incarnation already.
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
    """The isr, the elr and the unclean, with the broker's older incarnations seen to."""
    # Exactly: an epoch that is merely later may have served, and written what is not here.
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

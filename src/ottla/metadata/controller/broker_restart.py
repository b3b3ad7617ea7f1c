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

from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition, Record
from ottla.metadata.store import Member
from ottla.metadata.values import BrokerState, Incarnation
from ottla.protocol.topic_partition import TopicPartition

# A partition of six replicas fills less than a kilobyte; an entry has room for 512.
RECORDS_AN_ENTRY_MAX = 500


class Restart(NamedTuple):
    """The records of a broker's return, and the partitions that may have lost something by it."""

    records: list[Record]
    possible_losses: list[TopicPartition]


class Rejoined(NamedTuple):
    """A partition after one of its replicas came back, and whether it may have lost something."""

    partition: Partition
    may_have_lost: bool


def broker_started(image: Image, member: Member) -> Restart:
    """A broker is up with a new incarnation, and so is all that it can lead.

    Only its own epoch is looked at: the other replicas of a partition stay as they are.
    """
    registration = member.registration
    broker = Broker(
        broker_id=registration.broker_id,
        epoch=member.broker_epoch,
        inherits=registration.inherits,
        endpoints=registration.endpoints,
        rack=registration.rack,
        host=registration.host,
        state=BrokerState.UP,
    )
    restart = Restart([broker], [])
    for topic, partition in _replicas_of(image, broker.broker_id):
        rejoined = rejoin(partition, broker.incarnation, registration.inherited_epochs)
        if rejoined.partition != partition:
            epoch = partition.partition_epoch + 1
            restart.records.append(replace(rejoined.partition, partition_epoch=epoch))
        if rejoined.may_have_lost:
            restart.possible_losses.append(TopicPartition(topic, partition.index))
    return restart


def rejoin(partition: Partition, me: Incarnation, inherits: Collection[int]) -> Rejoined:
    """The partition with a broker's new incarnation, its partition epoch not yet counted on."""
    isr, elr, unclean = _memberships(partition, me, inherits)
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


def in_entries(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records in portions that an entry can hold, in their order."""
    left = iter(records)
    while portion := list(islice(left, RECORDS_AN_ENTRY_MAX)):
        yield portion


def _memberships(
    partition: Partition, me: Incarnation, inherits: Collection[int]
) -> tuple[tuple[Incarnation, ...], tuple[Incarnation, ...], tuple[int, ...]]:
    """The isr, the elr and the unclean, with the broker's older incarnations seen to."""
    mine = [each for each in partition.isr + partition.elr if each.broker_id == me.broker_id]
    # Exactly: an epoch that is merely later may have served, and written what is not here.
    if inherits and all(each.broker_epoch in inherits for each in mine):
        return (
            tuple(me if each in mine else each for each in partition.isr),
            tuple(me if each in mine else each for each in partition.elr),
            partition.unclean,
        )
    return (
        tuple(each for each in partition.isr if each not in mine),
        tuple(each for each in partition.elr if each not in mine),
        (*partition.unclean, me.broker_id) if mine else partition.unclean,
    )


def _replicas_of(image: Image, broker_id: int) -> Iterator[tuple[str, Partition]]:
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        if topic is not None:
            for partition in image.partitions(topic.topic_id):
                if broker_id in partition.replicas:
                    yield name, partition

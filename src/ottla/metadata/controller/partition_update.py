"""What a partition must look like, given the brokers of the image. Decides, does no I/O.

A member of the ISR or of the ELR names a broker's epoch. The broker's record decides what happens:

| the broker's record                     | the member                                           |
|-----------------------------------------|------------------------------------------------------|
| the same epoch, starting or up          | stays                                                |
| the same epoch, draining                | leaves the ISR if others remain (it may stay in ELR) |
| the same epoch, gone; or no record      | leaves the ISR (it may stay in the ELR)              |
| the log of the partition is offline     | as gone                                              |
| inherits the epoch, log not damaged     | is rewritten to the new epoch, then as above         |
| any other epoch, or the log is damaged  | leaves ISR and ELR, becomes `unclean`                |

Replicas that leave the ISR become eligible leader replicas if fewer than `min_isr` remain: the high
watermark stands still from then on, so they have all committed records. For the same reason the ELR
is emptied as soon as somebody leads with an ISR of `min_isr` or more.

`min_isr` counts at most as the number of replicas (KIP-966): this is the ISR with which the leader
moves the high watermark.

The leader stays while it is a live member of the ISR under the same epoch. A draining leader yields
to a member that is not draining. Else the first replica, in replica order, that is live leads:

1. in the ISR (the ones that are not draining first),
2. in the ELR; it is then the whole ISR,
3. if ISR and ELR are empty and exactly one replica is unclean: that one. It may have lost records.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ottla.metadata.records import Broker, Partition
from ottla.metadata.values import BrokerState, Incarnation, PartitionId

Brokers = Mapping[int, Broker]
Members = tuple[Incarnation, ...]

_SERVING = (BrokerState.STARTING, BrokerState.UP)
_ANY = tuple(BrokerState)


class _Memberships(NamedTuple):
    isr: Members
    elr: Members
    unclean: tuple[int, ...]


def updated(partition: Partition, brokers: Brokers) -> Partition:
    """The partition as it must be; the same object if it is so already."""
    brokers = as_seen_by(partition, brokers)
    if is_untouched(partition, brokers):
        return partition
    changed = settled(partition, brokers)
    leader = _only_unclean(changed, brokers)
    if leader is not None:
        changed = with_unclean_leader(changed, leader)
    return successor(partition, changed)


def is_untouched(partition: Partition, brokers: Brokers) -> bool:
    """Whether it is certain, at little cost, that nothing changes. Most partitions are so."""
    if partition.leader is None:
        # Nobody can lead before a member of the ELR is back.
        return (
            not partition.isr
            and bool(partition.elr)
            and _are_current(partition.elr, brokers, (BrokerState.GONE,))
        )
    if not _are_current(partition.isr, brokers, _SERVING):
        return False
    if not partition.elr:
        return True
    is_small = len(partition.isr) < min_isr_in_force(partition)
    return is_small and _are_current(partition.elr, brokers, _ANY)


def has_serving_leader(partition: Partition, brokers: Brokers) -> bool:
    """Whether it is certain, at little cost, that the leader stays."""
    return partition.leader is not None and _are_current((partition.leader,), brokers, _SERVING)


def settled(partition: Partition, brokers: Brokers) -> Partition:
    """The partition as it must be, except that nobody is elected who may have lost records.

    Its epochs are not raised. For decisions that also change the partition otherwise: their
    record raises the epochs once.
    """
    brokers = as_seen_by(partition, brokers)
    isr, elr, unclean = _without_leaving(partition, _in_current_epochs(partition, brokers), brokers)
    leader = partition.leader if partition.leader in isr else None
    if leader is None:
        leader = _first_live(partition.replicas, isr, brokers)
    if leader is None:
        leader = _first_live(partition.replicas, elr, brokers)
        if leader is not None:
            isr, elr = (leader,), without(elr, leader.broker_id)
    if leader is not None and len(isr) >= min_isr_in_force(partition):
        elr = ()
    if (leader, isr, elr, unclean) == (
        partition.leader,
        partition.isr,
        partition.elr,
        partition.unclean,
    ):
        return partition
    return replace(partition, leader=leader, isr=isr, elr=elr, unclean=unclean)


def as_seen_by(partition: Partition, brokers: Brokers) -> Brokers:
    """The brokers, of which those whose log of this partition is offline count as gone."""
    where = PartitionId(partition.topic_id, partition.index)
    gone = {
        broker_id: replace(broker, state=BrokerState.GONE)
        for broker_id in partition.replicas
        if (broker := brokers.get(broker_id)) is not None
        and broker.offline
        and where in broker.offline
    }
    return {**brokers, **gone} if gone else brokers


def with_unclean_leader(partition: Partition, leader: Incarnation) -> Partition:
    """The partition under a leader that may have lost records; its epochs are not raised.

    The leader's log is the history of the partition from now on. So nobody else is in sync or
    eligible. The others that were become unclean, or stay so: until records are committed again,
    one of them may have the records that the leader loses next. The record itself says that records
    may be lost: every broker that applies it can report that, whatever becomes of the controller.
    """
    others = [*partition.unclean, *(each.broker_id for each in partition.isr + partition.elr)]
    unclean = tuple(each for each in others if each != leader.broker_id)
    return replace(
        partition,
        leader=leader,
        isr=(leader,),
        elr=(),
        unclean=unclean,
        possible_loss_epoch=partition.leader_epoch + 1,
    )


def successor(before: Partition, after: Partition) -> Partition:
    """The partition `after`, which has the epochs of `before`, with the epochs that follow.

    `before` itself if they are equal. A replica that goes ends the leader epoch, too: if it comes
    back, with an empty log, what the leader knows of its old log must not count. Once all replicas
    are in sync they have the same records: a possible loss is history then, also if it is the loss
    of a single replica.
    """
    if after == before:
        return before
    loss = after.possible_loss_epoch
    if loss == before.possible_loss_epoch and len(after.isr) == len(after.replicas):
        loss = None
    is_new_epoch = after.leader != before.leader or not {*before.replicas} <= {*after.replicas}
    return replace(
        after,
        leader_epoch=before.leader_epoch + is_new_epoch,
        partition_epoch=before.partition_epoch + 1,
        possible_loss_epoch=loss,
    )


def min_isr_in_force(partition: Partition) -> int:
    """`min_isr`, at most the number of replicas."""
    return min(partition.min_isr, len(partition.replicas))


def without(members: Members, *broker_ids: int) -> Members:
    """The members except those of these brokers."""
    return tuple(member for member in members if member.broker_id not in broker_ids)


# --- steps of the update ----------------------------------------------------------------------


def _in_current_epochs(partition: Partition, brokers: Brokers) -> _Memberships:
    """The members under the current epochs of their brokers.

    An inherited membership is rewritten before anything else. If its broker is gone as well, it
    then leaves the ISR as an intact replica.
    """
    where = PartitionId(partition.topic_id, partition.index)
    unclean = list(partition.unclean)

    def current(members: Members) -> Members:
        kept: list[Incarnation] = []
        for member in members:
            broker = brokers.get(member.broker_id)
            if broker is None or broker.epoch == member.broker_epoch:
                kept.append(member)
            # Exactly these epochs: a later one may have served and written records that this
            # broker's disk does not have.
            elif member.broker_epoch in broker.inherited_epochs and where not in broker.damaged:
                kept.append(broker.incarnation)
            else:
                unclean.append(member.broker_id)
        return tuple(kept)

    return _Memberships(current(partition.isr), current(partition.elr), tuple(unclean))


def _without_leaving(partition: Partition, members: _Memberships, brokers: Brokers) -> _Memberships:
    """The members without those that are gone or draining in the ISR."""
    isr = tuple(each for each in members.isr if _is_live(each, brokers, draining=False))
    if not isr:
        isr = _last_draining(partition, members.isr, brokers)
    if len(isr) == len(members.isr):
        return members
    elr = members.elr
    if len(isr) < min_isr_in_force(partition):
        elr += tuple(each for each in members.isr if each not in isr)
    return members._replace(isr=isr, elr=elr)


def _last_draining(partition: Partition, isr: Members, brokers: Brokers) -> Members:
    """The draining member that stays, because no other one does: the leader, if it is one."""
    leader = partition.leader
    if leader in isr and _is_live(leader, brokers):
        return (leader,)
    first = _first_live(partition.replicas, isr, brokers)
    return () if first is None else (first,)


def _first_live(replicas: Iterable[int], members: Members, brokers: Brokers) -> Incarnation | None:
    """The first of the replicas that is a live member; one that is not draining, if there is."""
    live = {each.broker_id: each for each in members if _is_live(each, brokers)}
    in_order = [live[broker_id] for broker_id in replicas if broker_id in live]
    staying = (each for each in in_order if _is_live(each, brokers, draining=False))
    return next(staying, in_order[0] if in_order else None)


def _only_unclean(partition: Partition, brokers: Brokers) -> Incarnation | None:
    """The unclean replica that leads because there is no other one to compare it with."""
    if partition.isr or partition.elr or len(partition.unclean) != 1:
        return None
    broker = brokers.get(partition.unclean[0])
    return broker.incarnation if broker is not None and broker.is_live else None


def _is_live(member: Incarnation, brokers: Brokers, *, draining: bool = True) -> bool:
    broker = brokers.get(member.broker_id)
    if broker is None or broker.epoch != member.broker_epoch:
        return False
    return broker.is_live if draining else broker.state in _SERVING


def _are_current(members: Members, brokers: Brokers, states: Collection[BrokerState]) -> bool:
    """Whether the brokers of all members have the members' epochs and are in these states."""
    for broker_id, epoch in members:
        broker = brokers.get(broker_id)
        if broker is None or broker.epoch != epoch or broker.state not in states:
            return False
    return True

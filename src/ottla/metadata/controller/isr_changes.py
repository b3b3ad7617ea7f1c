"""Changes of the ISR that a leader asks for: AlterPartition (KIP-497, 841, 903). Does no I/O."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_update import (
    Brokers,
    as_seen_by,
    min_isr_in_force,
    settled,
    successor,
    without,
)
from ottla.metadata.controller.reassignment import completed
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Record
from ottla.metadata.values import BrokerState, Incarnation
from ottla.protocol.primitives import Uuid


class AskedIsr(NamedTuple):
    """The ISR that a leader asks for, with the epochs of the record that it knows."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[Incarnation, ...]


def altered_partitions(
    image: Image, requester: Incarnation, asked: Sequence[AskedIsr]
) -> tuple[list[Record], list[Partition | ErrorCode]]:
    """The records of changed partitions, and the outcome of each: the partition, or why not.

    NOT_CONTROLLER, a PeerError, if the requester has seen records of a later controller.
    """
    records: list[Record] = []
    outcomes: list[Partition | ErrorCode] = []
    changed: set[tuple[Uuid, int]] = set()
    for each in asked:
        key = each.topic_id, each.partition
        try:
            if key in changed:
                # The image does not show the first change yet.
                raise PeerError(ErrorCode.INVALID_REQUEST, "The partition is named twice.")
            before = image.partition(*key)
            after = altered(image, requester, each)
        except PeerError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                raise
            outcomes.append(error.code)
            continue
        outcomes.append(after)
        if after is not before:
            changed.add(key)
            records.append(after)
    return records, outcomes


def altered(image: Image, requester: Incarnation, asked: AskedIsr) -> Partition:
    """The partition with the ISR that its leader asks for; the same object if it has it already.

    A reassignment whose new replicas are now in sync is completed by the same record, and a leader
    that is draining yields to a member that joins. So the requester may lead no longer.
    """
    partition = _known(image, requester, asked)
    _check_epochs(partition, requester, asked)
    _check_members(partition, requester, asked.isr, as_seen_by(partition, image.brokers))
    changed = completed(_with_isr(partition, asked.isr))
    return successor(partition, settled(changed, image.brokers))


def _with_isr(partition: Partition, isr: tuple[Incarnation, ...]) -> Partition:
    """The partition with another ISR, in the order of its replicas; its epochs are not raised.

    Replicas that leave become eligible leader replicas if fewer than `min_isr` remain. Those that
    are eligible stay so: the ISR is large enough only if it still is after all other changes.
    """
    by_id = {member.broker_id: member for member in isr}
    members = tuple(by_id[each] for each in partition.replicas if each in by_id)
    elr = without(partition.elr, *by_id)
    if len(members) < min_isr_in_force(partition):
        elr += without(partition.isr, *by_id)
    unclean = tuple(each for each in partition.unclean if each not in by_id)
    return replace(partition, isr=members, elr=elr, unclean=unclean)


# --- checks, in Kafka's order -----------------------------------------------------------------


def _known(image: Image, requester: Incarnation, asked: AskedIsr) -> Partition:
    broker = image.brokers.get(requester.broker_id)
    if broker is None or broker.incarnation != requester or not broker.is_live:
        raise PeerError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {requester.broker_id} is not registered with epoch {requester.broker_epoch}.",
        )
    if image.topic_by_id(asked.topic_id) is None:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with id {asked.topic_id}.")
    partition = image.partition(asked.topic_id, asked.partition)
    if partition is None:
        raise PeerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic has no partition {asked.partition}."
        )
    return partition


def _check_epochs(partition: Partition, requester: Incarnation, asked: AskedIsr) -> None:
    if (
        asked.leader_epoch > partition.leader_epoch
        or asked.partition_epoch > partition.partition_epoch
    ):
        # The leader has seen records of a later controller: it has to find that one.
        raise PeerError(ErrorCode.NOT_CONTROLLER, "The leader knows a later record than this one.")
    if asked.leader_epoch < partition.leader_epoch:
        raise PeerError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"Leader epoch {asked.leader_epoch} is over, {partition.leader_epoch} has begun.",
        )
    if requester != partition.leader:
        raise PeerError(ErrorCode.INVALID_REQUEST, "Only the leader changes the ISR.")
    if asked.partition_epoch < partition.partition_epoch:
        raise PeerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Partition epoch {asked.partition_epoch}, where {partition.partition_epoch} is due.",
        )


def _check_members(
    partition: Partition, leader: Incarnation, isr: tuple[Incarnation, ...], brokers: Brokers
) -> None:
    broker_ids = [member.broker_id for member in isr]
    if len(set(broker_ids)) != len(broker_ids):
        raise PeerError(ErrorCode.INVALID_REQUEST, "The ISR names a broker twice.")
    for broker_id in broker_ids:
        if broker_id not in partition.replicas:
            raise PeerError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is not a replica.")
    if leader.broker_id not in broker_ids:
        raise PeerError(ErrorCode.INVALID_REQUEST, "The leader cannot leave the ISR.")
    for member in isr:
        # The leader is live. While it drains, others have to be able to join.
        if member != leader and not _is_eligible(member, brokers):
            raise PeerError(
                ErrorCode.INELIGIBLE_REPLICA,
                f"Broker {member.broker_id} is not up with epoch {member.broker_epoch}.",
            )


def _is_eligible(member: Incarnation, brokers: Brokers) -> bool:
    broker = brokers.get(member.broker_id)
    return broker is not None and broker.incarnation == member and broker.state is BrokerState.UP

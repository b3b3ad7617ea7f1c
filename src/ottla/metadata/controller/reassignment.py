"""Moves of replicas to other brokers: start, cancellation and completion (KIP-455). Does no I/O.

While replicas move, the partition's replicas are those of the target, then those that leave.
`adding` are the new ones, `removing` the ones that leave. It is complete when the new ones are in
sync: then the target is written. `originals` are the replicas to which a cancellation goes back,
also if the target was replaced meanwhile.
"""

from dataclasses import replace

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_update import settled, successor, without
from ottla.metadata.controller.topic_changes import REPLICATION_FACTOR_MAX, Replicas
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import BrokerState

# Each replaced target may leave replicas behind. The record has to fit its share of an entry.
MOVING_REPLICAS_MAX = 2 * REPLICATION_FACTOR_MAX


def started(
    image: Image, partition: Partition, target: Replicas, *, may_change_factor: bool
) -> Partition:
    """The partition on its way to the target; the same object if it is there already.

    A reassignment in progress is replaced. Of its new replicas, those that neither target nor
    originals need stay only if they may have committed records. A target without new brokers is
    reached at once, if enough of its replicas are in sync.
    """
    originals = _originals(partition)
    _check_target(image, partition.replicas, target)
    if len(target) != len(originals) and not may_change_factor:
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"It has {len(originals)} replicas, the target {len(target)}.",
        )
    kept = {*originals, *partition.unclean}
    kept.update(member.broker_id for member in partition.isr + partition.elr)
    removing = tuple(each for each in partition.replicas if each not in target and each in kept)
    if len(target + removing) > MOVING_REPLICAS_MAX:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"With those that leave, it would have more than {MOVING_REPLICAS_MAX} replicas.",
        )
    adding = tuple(each for each in target if each not in originals)
    moving = replace(
        partition,
        replicas=target + removing,
        adding=adding,
        removing=removing,
        originals=originals if adding or removing else (),
    )
    return successor(partition, settled(completed(moving), image.brokers))


def cancelled(image: Image, partition: Partition) -> Partition:
    """The partition with its original replicas, of which at least one must be in sync."""
    if not (partition.adding or partition.removing):
        raise PeerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No replica of it is moving.")
    back = _restricted(partition, _originals(partition))
    if not back.isr:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "None of the original replicas is in sync: records would be lost.",
        )
    return successor(partition, settled(back, image.brokers))


def completed(partition: Partition) -> Partition:
    """The partition with the target as its replicas, if it is reached; its epochs are not raised.

    It is reached when all new replicas are in sync, and with the staying ones they are at least
    `min_isr`: the logs of the others are deleted, and with them copies of committed records.
    The leader is not in the ISR any more if it was one of the others.
    """
    if not (partition.adding or partition.removing):
        return partition
    in_sync = [member.broker_id for member in partition.isr]
    if any(broker_id not in in_sync for broker_id in partition.adding):
        return partition
    target = tuple(each for each in partition.replicas if each not in partition.removing)
    reached = _restricted(partition, target)
    return reached if len(reached.isr) >= min(partition.min_isr, len(target)) else partition


def _originals(partition: Partition) -> Replicas:
    # Records of earlier versions do not have them.
    return partition.originals or tuple(
        each for each in partition.replicas if each not in partition.adding
    )


def _restricted(partition: Partition, replicas: Replicas) -> Partition:
    """The partition with nothing but these of its replicas, and no reassignment."""
    others = [each for each in partition.replicas if each not in replicas]
    return replace(
        partition,
        replicas=replicas,
        adding=(),
        removing=(),
        originals=(),
        isr=without(partition.isr, *others),
        elr=without(partition.elr, *others),
        unclean=tuple(each for each in partition.unclean if each in replicas),
    )


def _check_target(image: Image, present: Replicas, target: Replicas) -> None:
    """A replica that stays may be down: a dead broker must not prevent a move from another one."""
    fault = None
    if not target:
        fault = "The target has no replicas."
    elif len(target) > REPLICATION_FACTOR_MAX:
        fault = f"The target has more than {REPLICATION_FACTOR_MAX} replicas."
    elif len(set(target)) != len(target):
        fault = "The target names a broker twice."
    else:
        for broker_id in target:
            broker = image.brokers.get(broker_id)
            is_up = broker is not None and broker.state is BrokerState.UP
            if broker_id not in present and not is_up:
                fault = f"The target names broker {broker_id}, which is not up."
    if fault is not None:
        raise PeerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)

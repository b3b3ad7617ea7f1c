"""Wrong versions of the controller's decisions. The model must find each of them."""

from collections.abc import Mapping
from dataclasses import replace

from ottla.metadata.controller import reassignment
from ottla.metadata.controller.isr_changes import AskedIsr, altered
from ottla.metadata.controller.partition_update import settled, successor, updated
from ottla.metadata.controller.unclean_election import LogEnd, elected_by_log_ends
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition
from ottla.metadata.values import Incarnation

Brokers = Mapping[int, Broker]


def min_isr_change_that_empties_the_elr(
    partition: Partition, min_isr: int, brokers: Brokers
) -> Partition:
    """Whether somebody leads or not."""
    return successor(partition, replace(partition, min_isr=min_isr, elr=()))


def update_with_any_older_epoch_inherited(partition: Partition, brokers: Brokers) -> Partition:
    """A broker that inherits from any epoch inherits from all before."""
    return updated(partition, {each.broker_id: _with_older(each) for each in brokers.values()})


def _with_older(broker: Broker) -> Broker:
    if broker.inherits is None:
        return broker
    return replace(broker, also_inherits=tuple(range(broker.inherits)))


def update_that_drops_first(partition: Partition, brokers: Brokers) -> Partition:
    """A restarted replica leaves ISR and ELR, unless it is the last, instead of being rewritten."""
    isr, elr = (
        tuple(each for each in members if brokers[each.broker_id].epoch == each.broker_epoch)
        for members in (partition.isr, partition.elr)
    )
    if not isr and not elr:
        return updated(partition, brokers)
    leader = partition.leader if partition.leader in isr else None
    dropped = replace(partition, leader=leader, isr=isr, elr=elr)
    return successor(partition, settled(dropped, brokers))


def update_without_elr(partition: Partition, brokers: Brokers) -> Partition:
    """Replicas that leave a too small ISR become eligible only if it would be empty."""
    after = updated(partition, brokers)
    eligible = [each.broker_id for each in partition.elr]
    elr = tuple(each for each in after.elr if each.broker_id in eligible)
    if elr == after.elr or not after.isr:
        return after
    return replace(after, elr=elr)


def update_that_ignores_damage(partition: Partition, brokers: Brokers) -> Partition:
    return updated(
        partition, {each.broker_id: replace(each, damaged=()) for each in brokers.values()}
    )


def update_that_elects_unclean_before_eligible(partition: Partition, brokers: Brokers) -> Partition:
    """An unclean replica leads although an eligible leader replica may come back."""
    after = updated(partition, brokers)
    if after.leader is not None or not after.elr:
        return after
    alone = updated(replace(after, elr=(), partition_epoch=partition.partition_epoch), brokers)
    return after if alone.leader is None else alone


def update_that_records_no_loss(partition: Partition, brokers: Brokers) -> Partition:
    after = updated(partition, brokers)
    return after if after is partition else replace(after, possible_loss_epoch=None)


def election_that_forgets_the_unclean(
    partition: Partition,
    brokers: Brokers,
    partition_epoch: int,
    ends: Mapping[Incarnation, LogEnd],
    *,
    is_unclean_allowed: bool,
) -> Partition | None:
    """Though they may have the records that the new leader loses before it commits any."""
    after = elected_by_log_ends(
        partition, brokers, partition_epoch, ends, is_unclean_allowed=is_unclean_allowed
    )
    return None if after is None else replace(after, unclean=())


def expansion_that_keeps_the_elr(
    image: Image, requester: Incarnation, asked: AskedIsr
) -> Partition:
    """Though records are committed without the eligible leader replicas from now on."""
    before = image.partition(asked.topic_id, asked.partition)
    after = altered(image, requester, asked)
    if before is None or after is before:
        return after
    members = [*after.unclean, *(each.broker_id for each in (*after.isr, *after.elr))]
    kept = tuple(each for each in before.elr if each.broker_id not in members)
    return replace(after, elr=after.elr + kept)


def completed_too_early(partition: Partition) -> Partition:
    """The target is written though its new replicas may lack records."""
    target = tuple(each for each in partition.replicas if each not in partition.removing)
    return reassignment._restricted(partition, target)

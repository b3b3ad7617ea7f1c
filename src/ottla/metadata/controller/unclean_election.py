"""Elections among replicas that may have lost records. Decides, does no I/O.

Two steps: the candidates are asked for the ends of their logs, then the answers decide. A candidate
whose last record has the latest leader epoch, and among those the longest log, has lost the least.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ottla.metadata.controller.partition_update import Brokers, successor, updated
from ottla.metadata.records import Partition
from ottla.metadata.values import Incarnation


class LogEnd(NamedTuple):
    """The leader epoch of a log's last batch, -1 if there is none, and its log end offset."""

    last_epoch: int
    end_offset: int


def candidates(
    partition: Partition, brokers: Brokers, *, is_unclean_allowed: bool
) -> tuple[Incarnation, ...]:
    """The brokers to ask for the ends of their logs, in replica order.

    None of them if somebody leads or will lead after the next update of the partition. Else the
    unclean replicas, if all are live and no member of ISR or ELR can come back. If unclean
    elections are allowed (`unclean.leader.election.enable`): all replicas that are live.
    """
    if updated(partition, brokers).partition is not partition or partition.leader is not None:
        return ()
    live = [
        brokers[broker_id].incarnation
        for broker_id in partition.replicas
        if broker_id in brokers and brokers[broker_id].is_live
    ]
    if is_unclean_allowed:
        return tuple(live)
    unclean = tuple(each for each in live if each.broker_id in partition.unclean)
    is_complete = len(unclean) == len(partition.unclean)
    return unclean if is_complete and not partition.isr and not partition.elr else ()


def elected_by_log_ends(
    partition: Partition,
    brokers: Brokers,
    partition_epoch: int,
    ends: Mapping[Incarnation, LogEnd],
    *,
    is_unclean_allowed: bool,
) -> Partition | None:
    """The partition under the candidate with the largest log end; ties go by replica order.

    None if the partition is not at this epoch any more, or if a candidate has not answered: the
    candidates are then to be asked again. Answers of other incarnations do not count, since a
    restart may have cut the log.

    The leader's log is the history of the partition from now on. So nobody else is eligible.
    """
    asked = candidates(partition, brokers, is_unclean_allowed=is_unclean_allowed)
    if partition.partition_epoch != partition_epoch or not asked:
        return None
    if any(candidate not in ends for candidate in asked):
        return None
    leader = max(asked, key=lambda candidate: ends[candidate])
    return successor(
        partition, replace(partition, leader=leader, isr=(leader,), elr=(), unclean=())
    )

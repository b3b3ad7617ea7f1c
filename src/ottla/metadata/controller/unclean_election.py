"""Elections among replicas that may have lost records. Decides, does no I/O.

Two steps: the candidates are asked for the ends of their logs, then the answers decide. A candidate
whose last record has the latest leader epoch, and among those the longest log, has lost the least.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_update import (
    Brokers,
    as_seen_by,
    successor,
    updated,
    with_unclean_leader,
)
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Topic
from ottla.metadata.values import Incarnation, PartitionId


class LogEnd(NamedTuple):
    """The leader epoch of a log's last batch, -1 if there is none, and its log end offset."""

    last_epoch: int
    end_offset: int


class NoEligibleReplica(PeerError):
    """No replica of a partition that could lead it is live with its log."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "None of its brokers is up with its log."
        )


def candidates(
    partition: Partition, brokers: Brokers, *, is_unclean_allowed: bool
) -> tuple[Incarnation, ...]:
    """The brokers to ask for the ends of their logs, in replica order.

    None of them if somebody leads or will lead after the next update of the partition. Else the
    unclean replicas, if all are live and no member of ISR or ELR can come back. If unclean
    elections are allowed (`unclean.leader.election.enable`): all replicas that are live.
    """
    if updated(partition, brokers) is not partition or partition.leader is not None:
        return ()
    live = _live_replicas(partition, brokers)
    if is_unclean_allowed:
        return tuple(live)
    unclean = tuple(each for each in live if each.broker_id in partition.unclean)
    is_complete = len(unclean) == len(partition.unclean)
    return unclean if is_complete and not partition.isr and not partition.elr else ()


def has_live_replica(partition: Partition, brokers: Brokers) -> bool:
    """Whether a replica could lead if lost records did not matter."""
    return bool(_live_replicas(partition, brokers))


def _live_replicas(partition: Partition, brokers: Brokers) -> list[Incarnation]:
    brokers = as_seen_by(partition, brokers)
    return [
        brokers[broker_id].incarnation
        for broker_id in partition.replicas
        if broker_id in brokers and brokers[broker_id].is_live
    ]


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
    """
    asked = candidates(partition, brokers, is_unclean_allowed=is_unclean_allowed)
    if partition.partition_epoch != partition_epoch or not asked:
        return None
    if any(candidate not in ends for candidate in asked):
        return None
    leader = max(asked, key=lambda candidate: ends[candidate])
    return successor(partition, with_unclean_leader(partition, leader))


# --- many partitions --------------------------------------------------------------------------


class Question(NamedTuple):
    """The candidates of a partition, and the epoch of the record that makes them candidates."""

    where: PartitionId
    partition_epoch: int
    candidates: tuple[Incarnation, ...]


# Whether a topic of the image may have a leader that is not in sync.
IsUncleanAllowed = Callable[[Image, Topic], bool]
LogEnds = Mapping[Incarnation, Mapping[PartitionId, LogEnd]]


def questions(
    image: Image, ids: Iterable[PartitionId], is_allowed: IsUncleanAllowed
) -> list[Question]:
    """Whom to ask about which of these partitions."""
    asked: list[Question] = []
    for where in ids:
        topic, partition = image.topic_by_id(where.topic_id), image.partition(*where)
        if topic is None or partition is None or partition.leader is not None:
            continue
        found = candidates(partition, image.brokers, is_unclean_allowed=is_allowed(image, topic))
        if found:
            asked.append(Question(where, partition.partition_epoch, found))
    return asked


def elected_by_answers(
    image: Image, asked: Iterable[Question], ends: LogEnds, is_allowed: IsUncleanAllowed
) -> list[Partition]:
    """New records of the partitions whose candidates have all answered, if nothing has changed."""
    records: list[Partition] = []
    for where, partition_epoch, _ in asked:
        topic, partition = image.topic_by_id(where.topic_id), image.partition(*where)
        if topic is None or partition is None:
            continue
        told = {each: known[where] for each, known in ends.items() if where in known}
        after = elected_by_log_ends(
            partition,
            image.brokers,
            partition_epoch,
            told,
            is_unclean_allowed=is_allowed(image, topic),
        )
        if after is not None:
            records.append(after)
    return records

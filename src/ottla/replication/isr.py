"""Which ISR a leader wants: followers that caught up join, those that lag leave. Does no I/O."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.metadata.records import Broker
from ottla.metadata.values import BrokerState, Incarnation
from ottla.replication.follower_progress import FollowerProgress
from ottla.replication.partition import Members, Partition

if TYPE_CHECKING:
    from ottla.replication.replica import Replica


def wanted_isr(partition: Partition, brokers: Mapping[int, Broker]) -> Members | None:
    """The ISR that the leader should ask for; None if it has it.

    In the order of the replicas.
    """
    if not partition.is_leader or partition.leader is None:
        return None
    members = {
        member.broker_id: member
        for member in partition.isr
        if member == partition.leader or not _lags(partition, member)
    }
    for progress in partition.followers.values():
        if _may_join(partition, progress, brokers.get(progress.incarnation.broker_id)):
            members.setdefault(progress.incarnation.broker_id, progress.incarnation)
    wanted = tuple(members[each] for each in partition.replicas if each in members)
    return None if set(wanted) == set(partition.isr) else wanted


def is_candidate(partition: Partition, follower: Incarnation) -> bool:
    """Whether a follower that has just fetched may be about to join. Most are in the ISR."""
    return follower not in partition.isr and _has_caught_up(
        partition, partition.followers[follower.broker_id]
    )


def _lags(partition: Partition, member: Incarnation) -> bool:
    progress = partition.followers.get(member.broker_id)
    if progress is None or progress.incarnation != member:
        # It has not fetched in this leader epoch.
        return partition.lag_due_offset >= 0
    return progress.end_offset < partition.lag_due_offset


def _may_join(partition: Partition, progress: FollowerProgress, broker: Broker | None) -> bool:
    follower = progress.incarnation
    return (
        follower.broker_id in partition.replicas
        and broker is not None
        # A broker that restarted or drains must not count.
        and broker.incarnation == follower
        and broker.state is BrokerState.UP
        and _has_caught_up(partition, progress)
    )


def _has_caught_up(partition: Partition, progress: FollowerProgress) -> bool:
    """It has all that is committed, all that the leader had when it began to lead, and what a
    member must have in order to stay."""
    return progress.end_offset >= max(
        partition.high_watermark, partition.epoch_start_offset, partition.lag_due_offset
    )


class IsrCandidates:
    """The partitions whose ISR may have to change, for the task that asks the controller."""

    def __init__(self) -> None:
        # A dict, for its order.
        self._replicas: dict[Replica, None] = {}
        self._is_waiting = asyncio.Event()

    def put(self, replica: "Replica") -> None:
        self._replicas[replica] = None
        self._is_waiting.set()

    async def take(self) -> "list[Replica]":
        """All of them; waits for the first."""
        await self._is_waiting.wait()
        self._is_waiting.clear()
        taken = list(self._replicas)
        self._replicas.clear()
        return taken

"""Asks the controller for the ISRs that leaders want: AlterPartition, one request at a time.

From the question to a record of the metadata log, the outcome is open, and the leader's high
watermark waits for the old and the new members. A request without an answer is sent again as it
was. Only INELIGIBLE_REPLICA is an answer that nothing has changed: any other refusal says that the
metadata log has a newer record, perhaps of the same request.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.broker.inter_broker.own_requests import OwnRequests
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.isr_changes import AskedIsr
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition
from ottla.metadata.store import Entry
from ottla.metadata.values import BrokerState, Incarnation
from ottla.metrics.meters import BrokerMeter
from ottla.replication.follower_progress import LAG_TICKS
from ottla.replication.housekeeping.slices import in_slices
from ottla.replication.isr import wanted_isr
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock

# After a refusal, or without an answer.
RETRY_S = 0.5
# The partitions of one request.
PARTITIONS_MAX = 1_000


class _Change(NamedTuple):
    replica: Replica
    asked: AskedIsr
    before: frozenset[Incarnation]


class IsrRequests:
    """`run` and `run_ticks` do not end."""

    def __init__(
        self,
        replicas: Replicas,
        own_requests: OwnRequests,
        image: Callable[[], Image],
        lag_time_max_ms: Callable[[], int],
        clock: Clock,
        meter: BrokerMeter,
    ) -> None:
        self._replicas = replicas
        self._candidates = replicas.isr_candidates
        self._own_requests = own_requests
        self._image = image
        self._lag_time_max_ms = lag_time_max_ms
        self._clock = clock
        self._meter = meter

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        """Considers partitions again whose record has changed, or a replica of which is up now.

        A follower of an idle partition does not fetch it again by itself.
        """
        for record in entry.records:
            match record:
                case Partition():
                    self._put_if_not_full(self._replicas.get(record.topic_id, record.index))
                case Broker(state=BrokerState.UP):
                    for replica in self._replicas:
                        if record.broker_id in replica.partition.replicas:
                            self._put_if_not_full(replica)
                case _:
                    pass

    def _put_if_not_full(self, replica: Replica | None) -> None:
        """Considers a partition that this broker leads, unless all of its replicas are in sync."""
        if replica is None or not replica.partition.is_leader:
            return
        if len(replica.partition.isr) < len(replica.partition.replicas):
            self._candidates.put(replica)

    async def run_ticks(self) -> None:
        """Measures how far followers are behind."""
        while True:
            await asyncio.sleep(self._lag_time_max_ms() / LAG_TICKS / 1e3)
            async for replica in in_slices(list(self._replicas), self._clock):
                if replica.partition.is_leader and len(replica.partition.replicas) > 1:
                    replica.partition.tick()
                    self._candidates.put(replica)

    async def run(self) -> None:
        """Asks for the ISRs of candidates, and again where the outcome is not known."""
        unanswered: list[_Change] = []
        while True:
            if not unanswered:
                candidates = await self._candidates.take()
                changes = [
                    change
                    async for each in in_slices(candidates, self._clock)
                    if (change := self._change(each)) is not None
                ]
            else:
                changes, unanswered = unanswered, []
            for begin in range(0, len(changes), PARTITIONS_MAX):
                unanswered += await self._ask(changes[begin : begin + PARTITIONS_MAX])
            if unanswered:
                await asyncio.sleep(RETRY_S)
                unanswered = [each for each in unanswered if _is_open(each)]

    def _change(self, replica: Replica) -> _Change | None:
        """The change that the leader wants; it waits for the new members from now on."""
        partition = replica.partition
        isr = wanted_isr(partition, self._image().brokers)
        if isr is None or partition.asked_isr is not None:
            return None
        partition.isr_asked(isr)
        asked = AskedIsr(
            partition.topic_id,
            partition.index,
            partition.leader_epoch,
            partition.partition_epoch,
            isr,
        )
        return _Change(replica, asked, frozenset(partition.isr))

    async def _ask(self, changes: Sequence[_Change]) -> list[_Change]:
        """Returns those whose outcome is not known."""
        try:
            outcomes = await self._own_requests.alter_partitions([each.asked for each in changes])
        except PeerError:
            return list(changes)
        unknown: list[_Change] = []
        for change, code in zip(changes, outcomes, strict=True):
            if code is ErrorCode.NONE:
                self._count(change)
            elif code is ErrorCode.INELIGIBLE_REPLICA:
                self._refused(change)
            else:
                unknown.append(change)
        return unknown

    def _count(self, change: _Change) -> None:
        """Counts the change that the controller has made."""
        after = set(change.asked.isr)
        self._meter.isr_expands += not after <= change.before
        self._meter.isr_shrinks += not change.before <= after

    def _refused(self, change: _Change) -> None:
        replica, asked, _ = change
        before = replica.high_watermark
        if not _is_open(change):
            return
        if replica.partition.isr_refused(asked.isr):
            replica.high_watermark_moved(before)
        # The others may still have to join or to leave.
        asyncio.get_running_loop().call_later(RETRY_S, self._candidates.put, replica)


def _is_open(change: _Change) -> bool:
    """Whether the metadata log has no newer record of the partition."""
    replica, asked, _ = change
    partition = replica.partition
    return (
        partition.is_leader
        and partition.partition_epoch == asked.partition_epoch
        and partition.asked_isr == asked.isr
    )

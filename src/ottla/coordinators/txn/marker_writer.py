"""Writes the markers of decided transactions, again and again until all of them are written.

An effect of the coordinator's decision: it begins once the decision is committed. On one broker the
markers are written right after the client's answer, before the event loop reads another request,
unless the transaction has more partitions than one turn of the loop may take. If a leader does
not write its marker, the writer tries again until the coordinator moves to another broker, which
then begins anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ottla.coordinators.txn.decision import WriteMarkers
from ottla.coordinators.txn.partition_leaders import (
    TURN_MARKERS_MAX,
    Codes,
    ComingCodes,
    PartitionLeaders,
    write_in_turns,
)
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metrics.meters import TransactionMeter
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker

if TYPE_CHECKING:
    from ottla.coordinators.txn.coordinator import TransactionShard

RETRY_MS_MIN = 50
RETRY_MS_MAX = 1_000
# About two seconds.
DELAYED_TRIES = 6

# The partition has a later epoch of this producer: its transaction of this epoch is over there.
_IS_OVER = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})


class MarkerWriter:
    """Performs the effects of all shards of the transaction coordinator.

    `shard_of` finds the shard of a transactional id; PeerError if it is not on this broker.
    `on_refused` is told of markers that a partition refuses for good, `on_delayed` of a partition
    that has not written its marker after several tries; None if all have, and the end of the
    transaction cannot be recorded.
    """

    def __init__(
        self,
        leaders: PartitionLeaders,
        shard_of: Callable[[str], "TransactionShard"],
        image: Callable[[], Image],
        spawn: Callable[[Coroutine[Any, Any, Any], str], object],
        meter: TransactionMeter,
        on_refused: Callable[[TopicPartition, WriteMarkers, ErrorCode], None],
        on_delayed: Callable[[TopicPartition | None, WriteMarkers], None],
    ) -> None:
        self._leaders = leaders
        self._shard_of = shard_of
        self._image = image
        self._spawn = spawn
        self._meter = meter
        self._on_refused = on_refused
        self._on_delayed = on_delayed

    def perform(self, effect: WriteMarkers) -> None:
        try:
            shard = self._shard_of(effect.transactional_id)
        except PeerError:
            return  # the coordinator has moved, and the next one writes them
        codes = self._write(shard, effect, effect.partitions)
        if isinstance(codes, Mapping):
            left = self._left(effect, codes)
            if not left and self._complete(shard, effect):
                return
            retrying = self._retry(shard, effect, left)
        else:
            retrying = self._retry(shard, effect, effect.partitions, codes)
        self._spawn(retrying, f"markers of producer {effect.producer_id}")

    async def _retry(
        self,
        shard: "TransactionShard",
        effect: WriteMarkers,
        left: Collection[TopicPartition],
        codes: Codes | Awaitable[Codes] | None = None,
    ) -> None:
        """Tries again until no partition is left and the end of the transaction is recorded."""
        self._meter.unfinished += 1
        wait_ms = RETRY_MS_MIN
        tries = 0
        try:
            while True:
                if codes is not None:
                    written = codes if isinstance(codes, Mapping) else await codes
                    left = self._left(effect, written)
                if not left and self._complete(shard, effect):
                    return
                self._meter.marker_retries += 1
                tries += 1
                if tries == DELAYED_TRIES:
                    self._on_delayed(next(iter(left), None), effect)
                await asyncio.sleep(wait_ms / 1000)
                wait_ms = min(2 * wait_ms, RETRY_MS_MAX)
                if shard.is_closed:
                    # The next shard writes them. It may have done so already: before
                    # transaction.version 2, a late marker would end the next transaction.
                    return
                codes = self._write(shard, effect, left)
        finally:
            self._meter.unfinished -= 1

    def _write(
        self,
        shard: "TransactionShard",
        effect: WriteMarkers,
        partitions: Collection[TopicPartition],
    ) -> Codes | Awaitable[Codes]:
        marker = TransactionMarker(
            effect.producer_id,
            effect.producer_epoch,
            effect.kind,
            shard.leader_epoch,
            effect.transaction_version,
        )
        image = self._image()
        # In one order, so that a run can be repeated. A deleted partition needs no marker.
        existing = [name for name in sorted(partitions) if image.has_partition(*name)]
        if len(existing) <= TURN_MARKERS_MAX:
            return self._leaders.write(marker, existing)
        return ComingCodes(
            lambda: write_in_turns(self._leaders, marker, existing, lambda: not shard.is_closed)
        )

    def _left(self, effect: WriteMarkers, codes: Codes) -> list[TopicPartition]:
        """The partitions whose marker is not written."""
        left = []
        for name, code in codes.items():
            if code is ErrorCode.NONE:
                self._meter.markers += 1
            elif code in _IS_OVER:
                self._on_refused(name, effect, code)
            else:
                left.append(name)
        return left

    def _complete(self, shard: "TransactionShard", effect: WriteMarkers) -> bool:
        """Records that all markers are written; False if that is not possible now."""
        try:
            shard.apply(lambda now_ms: shard.machine.markers_written(effect, now_ms))
        except PeerError:
            return shard.is_closed
        return True

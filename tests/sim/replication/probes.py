"""Probes in every broker: they tell the oracle of all appends, truncations and high watermarks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from ottla.broker.inter_broker.own_requests import OwnRequests
from ottla.coordinators.txn.cluster_leaders import ClusterPartitionLeaders
from ottla.coordinators.txn.partition_leaders import Codes
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.isr_changes import AskedIsr
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica
from ottla.storage.log.log import Log
from tests.sim.cluster.metadata_audit import StoreClaims
from tests.sim.cluster.probes import probing
from tests.sim.replication.oracle import ReplicationOracle
from tests.sim.replication.stored_batches import batches_from
from tests.sim.seams.owner import OWNER

APPENDS = ("append", "append_together", "append_marker", "append_replicated")
TRUNCATIONS = ("truncate", "restart_at")
# All that moves the high watermark.
MOVES = ("assign", "appended", "fetched", "isr_refused", "replicated", "truncated")
# Told of an AlterPartition.
IsLost = Callable[[Sequence[AskedIsr]], bool]
# Told of a marker for other brokers: the sender's process, the marker, the partitions.
TellMarker = Callable[[str, TransactionMarker, Sequence[TopicPartition]], None]


@contextmanager
def replication_probed(oracle: ReplicationOracle, claims: StoreClaims) -> Iterator[None]:
    """All brokers of this process are probed inside the context."""
    with ExitStack() as stack:
        stack.enter_context(probing(oracle, claims))
        for owner, names, probe in (
            (Log, APPENDS, _append_probe),
            (Log, TRUNCATIONS, _truncation_probe),
            (Partition, MOVES, _move_probe),
            (Replica, ("__post_init__",), _open_probe),
        ):
            for name in names:
                probed = probe(getattr(owner, name), oracle)
                stack.enter_context(patch.object(owner, name, probed))
        yield


def _append_probe(append: Callable[..., Any], oracle: ReplicationOracle) -> Callable[..., Any]:
    def append_and_tell(self: Log, *args: Any, **named: Any) -> Any:
        active, end_offset = self._segments[-1], self.end_offset
        position = active.size_bytes
        try:
            return append(self, *args, **named)
        finally:
            # Also of a fetch the rest of which was refused.
            if self.end_offset > end_offset:
                oracle.written(self, list(batches_from(self, active, position)))

    return append_and_tell


def _truncation_probe(truncate: Callable[..., Any], oracle: ReplicationOracle) -> Any:
    def truncate_and_tell(self: Log, offset: int) -> None:
        before = self.end_offset
        truncate(self, offset)
        if self.end_offset < before:
            oracle.truncated(self, before)

    return truncate_and_tell


def _move_probe(move: Callable[..., Any], oracle: ReplicationOracle) -> Callable[..., Any]:
    tells_begin = move.__name__ == "assign"

    def move_and_tell(self: Partition, *args: Any, **named: Any) -> Any:
        before = self.high_watermark
        result = move(self, *args, **named)
        if tells_begin and result:
            oracle.begins_to_lead(self)
        if self.high_watermark != before:
            oracle.high_watermark_moved(self, before)
        return result

    return move_and_tell


def _open_probe(post_init: Callable[..., Any], oracle: ReplicationOracle) -> Callable[..., Any]:
    def open_and_tell(self: Replica) -> None:
        post_init(self)
        oracle.opened(self)

    return open_and_tell


@contextmanager
def isr_answers_lost(is_lost: IsLost, is_request_lost: IsLost = lambda _: False) -> Iterator[None]:
    """AlterPartition requests, or answers to them, get lost: the outcome is not known."""
    alter_partitions = OwnRequests.alter_partitions
    unknown = PeerError(ErrorCode.REQUEST_TIMED_OUT, "it was lost")

    async def alter_and_lose(self: OwnRequests, asked: Sequence[AskedIsr]) -> list[ErrorCode]:
        if is_request_lost(asked):
            raise unknown
        outcomes = await alter_partitions(self, asked)
        if is_lost(asked):
            raise unknown
        return outcomes

    with patch.object(OwnRequests, "alter_partitions", alter_and_lose):
        yield


@contextmanager
def markers_told(tell: TellMarker) -> Iterator[None]:
    """`tell` is called before each marker for other brokers is sent, or sent again."""
    settled = ClusterPartitionLeaders._settled

    async def tell_and_settle(
        self: ClusterPartitionLeaders,
        marker: TransactionMarker,
        written: Any,
        elsewhere: Mapping[int, Sequence[TopicPartition]],
    ) -> Codes:
        owner = OWNER.get()
        names = [name for partitions in elsewhere.values() for name in partitions]
        tell("" if owner is None else owner.name, marker, names)
        return await settled(self, marker, written, elsewhere)

    with patch.object(ClusterPartitionLeaders, "_settled", tell_and_settle):
        yield

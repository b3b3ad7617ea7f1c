"""A fetch session as the follower keeps it (KIP-227): what the leader knows of its logs. No I/O."""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from ottla.metadata.values import Incarnation, PartitionId
from ottla.native import replica_fetch
from ottla.protocol.messages.fetch import (
    FetchRequest,
    ForgottenTopic,
    Partition,
    ReplicaState,
    Topic,
)
from ottla.protocol.primitives import Uuid

NO_SESSION = 0
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1
# The partitions that one request names. The leader reads each of them in one turn of its loop.
NAMED_MAX = 200


class Position(NamedTuple):
    """Where a follower's log ends, and in which leader epoch it follows."""

    leader_epoch: int
    end_offset: int
    # Of the last batch; -1 if there is none.
    last_epoch: int
    start_offset: int


class FetchBounds(NamedTuple):
    """The limits of a follower's fetch: Kafka's `replica.fetch.*` settings."""

    wait_ms_max: int
    bytes_min: int
    response_bytes_max: int
    partition_bytes_max: int


class PlannedFetch(NamedTuple):
    """The next request of a session, as `native.replica_fetch` takes it, or as a message."""

    replica: replica_fetch.Replica
    limits: replica_fetch.Limits
    session: replica_fetch.Session
    topics: list[tuple[Uuid, list[replica_fetch.Position]]]
    forgotten: list[PartitionId]

    @property
    def is_ordinary(self) -> bool:
        return not self.forgotten

    def message(self) -> FetchRequest:
        replica_id, replica_epoch = self.replica
        wait_ms, bytes_min, bytes_max = self.limits
        session_id, session_epoch = self.session
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
            max_wait_ms=wait_ms,
            min_bytes=bytes_min,
            max_bytes=bytes_max,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=tuple(
                Topic(topic_id=topic_id, partitions=tuple(map(_partition, positions)))
                for topic_id, positions in self.topics
            ),
            forgotten_topics_data=_forgotten_topics(self.forgotten),
        )


class FollowerSession:
    """One session with one leader, under one incarnation of this broker.

    A request names the partitions whose positions have changed since the last one, and those that
    are no longer fetched. Its cost does not depend on the number of idle partitions.
    """

    def __init__(self, me: Incarnation) -> None:
        self.me = me
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._positions: dict[PartitionId, Position] = {}
        # Dicts, because a set has no order.
        self._changed: dict[PartitionId, None] = {}
        self._forgotten: dict[PartitionId, None] = {}

    def __len__(self) -> int:
        return len(self._positions)

    def is_as_asked(self, partition: PartitionId) -> bool:
        """Whether nothing has changed since the last request: its answer may be applied."""
        return partition in self._positions and partition not in self._changed

    def put(self, partition: PartitionId, position: Position) -> None:
        """Fetches the partition from this position on."""
        if self._positions.get(partition) != position:
            self._positions[partition] = position
            self._changed[partition] = None
            self._forgotten.pop(partition, None)

    def remove(self, partition: PartitionId) -> None:
        """No longer fetches the partition."""
        if self._positions.pop(partition, None) is not None:
            self._changed.pop(partition, None)
            self._forgotten[partition] = None

    def request(self, bounds: FetchBounds) -> PlannedFetch:
        """The next request. It takes changes since the last one, up to a limit.

        If more are left, the leader is not to wait for records.
        """
        by_topic: dict[Uuid, list[replica_fetch.Position]] = {}
        bytes_max = bounds.partition_bytes_max
        for partition in _take_some(self._changed):
            topic_id, index = partition
            leader_epoch, end_offset, last_epoch, start_offset = self._positions[partition]
            position = index, leader_epoch, end_offset, last_epoch, start_offset, bytes_max
            positions = by_topic.get(topic_id)
            if positions is None:
                by_topic[topic_id] = [position]
            else:
                positions.append(position)
        forgotten = _take_some(self._forgotten) if self._forgotten else []
        has_more = self._changed or self._forgotten
        return PlannedFetch(
            (self.me.broker_id, self.me.broker_epoch),
            (0 if has_more else bounds.wait_ms_max, bounds.bytes_min, bounds.response_bytes_max),
            (self._id, self._epoch),
            list(by_topic.items()),
            forgotten,
        )

    def answered(self, session_id: int) -> None:
        """The leader has taken the request: the next one continues the session, if there is one."""
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
            self._changed = dict.fromkeys(self._positions)
            self._forgotten.clear()
        else:
            self._id = session_id
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else INITIAL_EPOCH + 1


def _take_some(partitions: dict[PartitionId, None]) -> list[PartitionId]:
    """Removes and returns as many of them as one request names."""
    taken = list(islice(partitions, NAMED_MAX))
    for partition in taken:
        del partitions[partition]
    return taken


def _partition(position: replica_fetch.Position) -> Partition:
    index, leader_epoch, end_offset, last_epoch, start_offset, bytes_max = position
    return Partition(
        partition=index,
        current_leader_epoch=leader_epoch,
        fetch_offset=end_offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=start_offset,
        partition_max_bytes=bytes_max,
    )


def _forgotten_topics(partitions: Iterable[PartitionId]) -> tuple[ForgottenTopic, ...]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, []).append(index)
    return tuple(
        ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes))
        for topic_id, indexes in by_topic.items()
    )

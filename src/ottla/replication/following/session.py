"""A fetch session as the follower keeps it (KIP-227): what the leader knows of its logs. No I/O."""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
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

    def request(self, bounds: FetchBounds) -> FetchRequest:
        """The next request. It takes changes since the last one, up to a limit.

        If more are left, the leader is not to wait for records.
        """
        named = _take_some(self._changed)
        forgotten = _take_some(self._forgotten)
        has_more = bool(self._changed or self._forgotten)
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=self.me.broker_id, replica_epoch=self.me.broker_epoch
            ),
            max_wait_ms=0 if has_more else bounds.wait_ms_max,
            min_bytes=bounds.bytes_min,
            max_bytes=bounds.response_bytes_max,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=self._topics(named, bounds.partition_bytes_max),
            forgotten_topics_data=_forgotten_topics(forgotten),
        )

    def answered(self, response: FetchResponse) -> None:
        """The leader has taken the request: the next one continues the session, if there is one."""
        if response.session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
            self._changed = dict.fromkeys(self._positions)
            self._forgotten.clear()
        else:
            self._id = response.session_id
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else INITIAL_EPOCH + 1

    def _topics(self, named: Iterable[PartitionId], bytes_max: int) -> tuple[Topic, ...]:
        by_topic: dict[Uuid, list[Partition]] = {}
        for partition in named:
            at = self._positions[partition]
            by_topic.setdefault(partition.topic_id, []).append(
                Partition(
                    partition=partition.partition,
                    current_leader_epoch=at.leader_epoch,
                    fetch_offset=at.end_offset,
                    last_fetched_epoch=at.last_epoch,
                    log_start_offset=at.start_offset,
                    partition_max_bytes=bytes_max,
                )
            )
        return tuple(
            Topic(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        )


def _take_some(partitions: dict[PartitionId, None]) -> list[PartitionId]:
    """Removes and returns as many of them as one request names."""
    taken = list(islice(partitions, NAMED_MAX))
    for partition in taken:
        del partitions[partition]
    return taken


def _forgotten_topics(partitions: Iterable[PartitionId]) -> tuple[ForgottenTopic, ...]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, []).append(index)
    return tuple(
        ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes))
        for topic_id, indexes in by_topic.items()
    )

"""Asks brokers for the ends of their logs, for the controller's unclean elections."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.client.errors import ClientError, error_code
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.unclean_election import LogEnd
from ottla.metadata.unclean_elections import ToldLogEnds
from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.messages.describe_log_ends import (
    DescribeLogEndsRequest,
    DescribeLogEndsResponse,
    Topic,
)
from ottla.protocol.primitives import Uuid

TIMEOUT_MS = 3_000


class Channels(Protocol):
    """Requests to other brokers: `BrokerChannels`."""

    async def ask(self, broker_id: int, request: object, *, timeout_ms: int) -> Any: ...


class LogEndQueries:
    """An `AskLogEnds`. This broker's own logs are read without a request."""

    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        own_log_end: Callable[[PartitionId], LogEnd],
        channels: Callable[[], Channels | None],
    ) -> None:
        """`channels` returns None before the node serves, and without other brokers."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._own_log_end = own_log_end
        self._channels = channels

    async def __call__(self, broker_id: int, partitions: Sequence[PartitionId]) -> ToldLogEnds:
        """PeerError if there is no answer."""
        if broker_id == self._node_id:
            return self._own(partitions)
        channels = self._channels()
        if channels is None:
            raise PeerError(ErrorCode.BROKER_NOT_AVAILABLE, "There is no way to other brokers yet.")
        try:
            response: DescribeLogEndsResponse = await channels.ask(
                broker_id, _request(partitions), timeout_ms=TIMEOUT_MS
            )
        except ClientError as error:
            raise PeerError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)) from error
        if response.error_code != ErrorCode.NONE:
            raise PeerError(error_code(response.error_code), "It does not tell its log ends.")
        return _told(response)

    def _own(self, partitions: Sequence[PartitionId]) -> ToldLogEnds:
        ends: dict[PartitionId, LogEnd] = {}
        for where in partitions:
            try:
                ends[where] = self._own_log_end(where)
            except PeerError:
                continue  # as in an answer of another broker: its log is offline, for example
        return ToldLogEnds(Incarnation(self._node_id, self._broker_epoch()), ends)


def _request(partitions: Sequence[PartitionId]) -> DescribeLogEndsRequest:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, []).append(index)
    return DescribeLogEndsRequest(
        topics=tuple(
            Topic(topic_id=topic_id, partition_indexes=tuple(indexes))
            for topic_id, indexes in by_topic.items()
        )
    )


def _told(response: DescribeLogEndsResponse) -> ToldLogEnds:
    ends = {
        PartitionId(topic.topic_id, each.partition_index): LogEnd(
            each.last_epoch, each.log_end_offset
        )
        for topic in response.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }
    return ToldLogEnds(Incarnation(response.broker_id, response.broker_epoch), ends)
